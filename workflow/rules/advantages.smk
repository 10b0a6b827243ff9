rule advantages:
    input:
        shards=shards_of,
    output:
        advantages=f"{ROOT}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/advantages.parquet",
        metrics=f"{ROOT}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/advantages.json",
        manifest=f"{ROOT}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/advantages.parquet.manifest.json",
    log:
        f"{LOGS}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/advantages.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/advantages.tsv"
    conda:
        ENVIRONMENT
    params:
        settings=settings_of("advantages"),
    shell:
        "progpo advantages {input.shards:q} --settings {params.settings:q}"
        " --output {output.advantages:q} --metrics {output.metrics:q} --strict > {log:q} 2>&1"
