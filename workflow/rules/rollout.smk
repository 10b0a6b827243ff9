# `source` is the arm, or `shared` for the first iteration: all arms of a seed start from the same policy.
rule rollout:
    input:
        tasks=rules.tasks.output,
        policy=previous_policy,
        history=history,
    output:
        shard=f"{ROOT}/seed-{{seed}}/{{source}}/iteration-{{iteration}}/shard-{{shard}}.parquet",
        manifest=f"{ROOT}/seed-{{seed}}/{{source}}/iteration-{{iteration}}/shard-{{shard}}.parquet.manifest.json",
    log:
        f"{LOGS}/seed-{{seed}}/{{source}}/iteration-{{iteration}}/shard-{{shard}}.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/{{source}}/iteration-{{iteration}}/shard-{{shard}}.tsv"
    conda:
        ENVIRONMENT
    threads: EXPERIMENT.rollout.threads
    params:
        settings=settings_of("rollout"),
        history=option("--history", "history"),
        iteration=number("iteration"),
        shard=number("shard"),
    shell:
        "progpo rollout --settings {params.settings:q} --tasks {input.tasks:q} --policy {input.policy:q}"
        " --seed {wildcards.seed} --iteration {params.iteration} --shard {params.shard}"
        " --output {output.shard:q} {params.history:q} --strict > {log:q} 2>&1"
