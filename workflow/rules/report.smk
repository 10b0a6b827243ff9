rule report:
    input:
        results.expected(Path(ROOT), REPORT),
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
        root=root_of,
    # The folder, not its thousands of files: the settings say which of them are meant.
    shell:
        "progpo report {params.root:q} --settings {params.settings:q}"
        " --output {output.markdown:q} --strict > {log:q} 2>&1"


rule compare:
    input:
        results.expected(Path(ROOT), REPORT),
    output:
        markdown=f"{ROOT}/report/compare.md",
        table=f"{ROOT}/report/compare.csv",
        parquet=f"{ROOT}/report/compare.parquet",
        manifest=f"{ROOT}/report/compare.md.manifest.json",
    log:
        f"{LOGS}/compare.log",
    benchmark:
        f"{BENCHMARKS}/compare.tsv"
    conda:
        ENVIRONMENT
    params:
        settings=settings_of("compare"),
        root=root_of,
    shell:
        "progpo compare {params.root:q} --settings {params.settings:q}"
        " --output {output.markdown:q} --strict > {log:q} 2>&1"
