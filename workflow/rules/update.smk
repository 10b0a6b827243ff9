rule update:
    input:
        policy=previous_policy,
        reference=f"{ROOT}/seed-{{seed}}/warmup/policy/manifest.json",
        shards=shards_of,
        advantages=f"{ROOT}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/advantages.parquet",
        first=first_of("update.json"),
    output:
        policy=f"{ROOT}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/policy/manifest.json",
        metrics=f"{ROOT}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/update.json",
    log:
        f"{LOGS}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/update.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/{{arm}}/iteration-{{iteration}}/update.tsv"
    conda:
        ENVIRONMENT
    threads: EXPERIMENT.update.threads * EXPERIMENT.update.processes
    params:
        settings=settings_of("update"),
        first=option("--first", "first"),
        iteration=number("iteration"),
    shell:
        "progpo update {input.shards:q} --settings {params.settings:q} --policy {input.policy:q}"
        " --reference {input.reference:q} --advantages {input.advantages:q}"
        " --seed {wildcards.seed} --iteration {params.iteration}"
        " --output {output.policy:q} --metrics {output.metrics:q} {params.first:q} --strict > {log:q} 2>&1"
