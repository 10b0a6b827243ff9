rule evaluate:
    input:
        tasks=rules.tasks.output,
        policy=judged_policy,
    output:
        trajectories=f"{ROOT}/seed-{{seed}}/{{policy}}/evaluation/trajectories.parquet",
        summary=f"{ROOT}/seed-{{seed}}/{{policy}}/evaluation/summary.json",
        manifest=f"{ROOT}/seed-{{seed}}/{{policy}}/evaluation/trajectories.parquet.manifest.json",
    log:
        f"{LOGS}/seed-{{seed}}/{{policy}}/evaluate.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/{{policy}}/evaluate.tsv"
    conda:
        ENVIRONMENT
    threads: EXPERIMENT.evaluation.threads
    params:
        settings=settings_of("evaluate"),
    shell:
        "progpo evaluate --settings {params.settings:q} --tasks {input.tasks:q} --policy {input.policy:q}"
        " --output {output.trajectories:q} --summary {output.summary:q} --strict > {log:q} 2>&1"


# The same command on the tasks that are chosen by: during training, of each policy that `validation.every` names.
rule validate:
    input:
        tasks=rules.tasks.output,
        policy=f"{ROOT}/seed-{{seed}}/{{policy}}/policy/manifest.json",
    output:
        trajectories=f"{ROOT}/seed-{{seed}}/{{policy}}/validation/trajectories.parquet",
        summary=f"{ROOT}/seed-{{seed}}/{{policy}}/validation/summary.json",
        manifest=f"{ROOT}/seed-{{seed}}/{{policy}}/validation/trajectories.parquet.manifest.json",
    log:
        f"{LOGS}/seed-{{seed}}/{{policy}}/validate.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/{{policy}}/validate.tsv"
    conda:
        ENVIRONMENT
    threads: EXPERIMENT.validation.threads
    params:
        settings=settings_of("validate"),
    shell:
        "progpo evaluate --settings {params.settings:q} --tasks {input.tasks:q} --policy {input.policy:q}"
        " --output {output.trajectories:q} --summary {output.summary:q} --strict > {log:q} 2>&1"


rule best:
    input:
        summaries=validations_of,
    output:
        best=f"{ROOT}/seed-{{seed}}/{{arm}}/best.json",
        manifest=f"{ROOT}/seed-{{seed}}/{{arm}}/best.json.manifest.json",
    log:
        f"{LOGS}/seed-{{seed}}/{{arm}}/best.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/{{arm}}/best.tsv"
    conda:
        ENVIRONMENT
    shell:
        "progpo best {input.summaries:q} --output {output.best:q} --strict > {log:q} 2>&1"
