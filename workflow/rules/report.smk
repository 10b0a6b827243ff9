rule report:
    input:
        summaries=evaluated(),
        curves=curves(),
    output:
        markdown=f"{ROOT}/report/results.md",
        text=f"{ROOT}/report/results.txt",
        table=f"{ROOT}/report/results.csv",
        curves=f"{ROOT}/report/curves.csv",
        manifest=f"{ROOT}/report/results.md.manifest.json",
    log:
        f"{LOGS}/report.log",
    benchmark:
        f"{BENCHMARKS}/report.tsv"
    conda:
        ENVIRONMENT
    params:
        settings=settings_of("report"),
    shell:
        "progpo report {input.summaries:q} {input.curves:q} --settings {params.settings:q}"
        " --output {output.markdown:q} > {log:q} 2>&1"
