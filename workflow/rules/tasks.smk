rule tasks:
    output:
        f"{ROOT}/tasks/manifest.json",
    log:
        f"{LOGS}/tasks.log",
    benchmark:
        f"{BENCHMARKS}/tasks.tsv"
    conda:
        ENVIRONMENT
    params:
        settings=settings_of("tasks"),
    shell:
        "progpo tasks --settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


rule demonstrate:
    input:
        tasks=rules.tasks.output,
    output:
        demonstrations=f"{ROOT}/demonstrations/demonstrations.parquet",
        metrics=f"{ROOT}/demonstrations/metrics.json",
        manifest=f"{ROOT}/demonstrations/demonstrations.parquet.manifest.json",
    log:
        f"{LOGS}/demonstrate.log",
    benchmark:
        f"{BENCHMARKS}/demonstrate.tsv"
    conda:
        ENVIRONMENT
    threads: 2
    params:
        settings=settings_of("demonstrate"),
    shell:
        "progpo demonstrate --settings {params.settings:q} --tasks {input.tasks:q} --workers {threads}"
        " --output {output.demonstrations:q} --metrics {output.metrics:q} --strict > {log:q} 2>&1"
