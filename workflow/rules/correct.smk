rule correct:
    input:
        tasks=rules.tasks.output,
        policy=policy_before,
    output:
        corrections=f"{ROOT}/seed-{{seed}}/warmup/round-{{round}}/corrections.parquet",
        metrics=f"{ROOT}/seed-{{seed}}/warmup/round-{{round}}/corrections.json",
        manifest=f"{ROOT}/seed-{{seed}}/warmup/round-{{round}}/corrections.parquet.manifest.json",
    log:
        f"{LOGS}/seed-{{seed}}/warmup/round-{{round}}/corrections.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/warmup/round-{{round}}/corrections.tsv"
    conda:
        ENVIRONMENT
    threads: EXPERIMENT.corrections.threads
    params:
        settings=settings_of("correct"),
    shell:
        "progpo correct --settings {params.settings:q} --tasks {input.tasks:q} --policy {input.policy:q}"
        " --seed {wildcards.seed} --round {wildcards.round}"
        " --output {output.corrections:q} --metrics {output.metrics:q} --strict > {log:q} 2>&1"


rule relearn:
    input:
        corrections=corrections_of(""),
        manifests=corrections_of(".manifest.json"),
        policy=policy_before,
    output:
        policy=f"{ROOT}/seed-{{seed}}/{{corrected}}/policy/manifest.json",
        metrics=f"{ROOT}/seed-{{seed}}/{{corrected}}/metrics.json",
    log:
        f"{LOGS}/seed-{{seed}}/{{corrected}}.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/{{corrected}}.tsv"
    conda:
        ENVIRONMENT
    threads: EXPERIMENT.warmup.threads * EXPERIMENT.warmup.processes
    params:
        settings=settings_of("relearn"),
    shell:
        "progpo warmup {input.corrections:q} --policy {input.policy:q} --settings {params.settings:q}"
        " --seed {wildcards.seed} --output {output.policy:q} --metrics {output.metrics:q} --strict > {log:q} 2>&1"
