# `source` is the arm, or `shared` for the first iteration: all arms of a seed start from the same policy. Most jobs are of this
# rule, and Snakemake spends most of its time on what must be called for each: so there is no function without need.
rule rollout:
    input:
        tasks=rules.tasks.output,
        policy=previous_policy,
        history=[] if EXPERIMENT.rollout.sampling == "uniform" else history,
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
        history=[] if EXPERIMENT.rollout.sampling == "uniform" else option("--history", "history"),
    shell:
        "progpo rollout --settings {params.settings:q} --tasks {input.tasks:q} --policy {input.policy:q}"
        " --seed {wildcards.seed} --iteration {wildcards.iteration} --shard {wildcards.shard}"
        " --output {output.shard:q} {params.history:q} --strict > {log:q} 2>&1"
