rule evaluate:
    input:
        tasks=rules.tasks.output,
        policy=f"{ROOT}/seed-{{seed}}/{{policy}}/policy/manifest.json",
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
