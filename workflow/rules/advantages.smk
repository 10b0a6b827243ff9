rule advantages:
    input:
        shards=shards_of,
        first=first_of("advantages.json"),
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
        first=option("--first", "first"),
    shell:
        "progpo advantages {input.shards:q} --settings {params.settings:q}"
        " --output {output.advantages:q} --metrics {output.metrics:q} {params.first:q} --strict > {log:q} 2>&1"
