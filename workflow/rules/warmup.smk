# A checkpoint that is taken as it is (`warmup.tokens: 0`) needs no demonstrations.
rule warmup:
    input:
        demonstrations=rules.demonstrate.output.demonstrations if EXPERIMENT.warmup.tokens else [],
        manifest=rules.demonstrate.output.manifest if EXPERIMENT.warmup.tokens else [],
    output:
        policy=f"{ROOT}/seed-{{seed}}/{WARMED_UP}/policy/manifest.json",
        metrics=f"{ROOT}/seed-{{seed}}/{WARMED_UP}/metrics.json",
    log:
        f"{LOGS}/seed-{{seed}}/{WARMED_UP}.log",
    benchmark:
        f"{BENCHMARKS}/seed-{{seed}}/{WARMED_UP}.tsv"
    conda:
        ENVIRONMENT
    threads: EXPERIMENT.warmup.threads * EXPERIMENT.warmup.processes
    params:
        settings=settings_of("warmup"),
    shell:
        "progpo warmup {input.demonstrations:q} --settings {params.settings:q} --seed {wildcards.seed}"
        " --output {output.policy:q} --metrics {output.metrics:q} --strict > {log:q} 2>&1"
