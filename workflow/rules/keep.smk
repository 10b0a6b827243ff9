# Where the config says that not all stays: after each iteration of an arm, what is not needed any more is removed. Its inputs
# are all that still reads it: the iteration itself, and by the chain of these jobs the validations of all before.
rule keep:
    input:
        policy=f"{ROOT}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/policy/manifest.json",
        before=kept_before,
        validations=validated_before,
    output:
        kept=f"{ROOT}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/kept.json",
    log:
        f"{LOGS}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/keep.log",
    # Space is freed before more is taken, and where the run was started: it takes no time.
    priority: 100
    localrule: True
    conda:
        ENVIRONMENT
    params:
        settings=settings_of("keep"),
        arm=lambda wildcards, output: str(Path(output.kept).parents[1]),
        iteration=number("iteration"),
    shell:
        "progpo keep {params.arm:q} --settings {params.settings:q} --iteration {params.iteration}"
        " --output {output.kept:q} --strict > {log:q} 2>&1"
