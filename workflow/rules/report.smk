rule report:
    input:
        reported,
    output:
        markdown=f"{ROOT}/report/results.md",
        text=f"{ROOT}/report/results.txt",
        table=report(f"{ROOT}/report/results.csv", caption="../report/results.rst", category="Tables"),
        curves=report(f"{ROOT}/report/curves.csv", caption="../report/curves.rst", category="Tables"),
        manifest=f"{ROOT}/report/results.md.manifest.json",
        page=report(f"{ROOT}/report/report.html", caption="../report/page.rst", category="Page"),
        page_manifest=f"{ROOT}/report/report.html.manifest.json",
        success=report(f"{FIGURES}/success.svg", caption="../report/success.rst", category="Figures"),
        types=report(f"{FIGURES}/types.svg", caption="../report/types.rst", category="Figures"),
        learning=report(f"{FIGURES}/learning.svg", caption="../report/learning.rst", category="Figures"),
        groups=report(f"{FIGURES}/groups.svg", caption="../report/groups.rst", category="Figures"),
        exploration=report(f"{FIGURES}/exploration.svg", caption="../report/exploration.rst", category="Figures"),
        updates=report(f"{FIGURES}/update.svg", caption="../report/update.rst", category="Figures"),
        time=report(f"{FIGURES}/time.svg", caption="../report/time.rst", category="Figures"),
        images=expand(f"{FIGURES}/{{figure}}.png", figure=CAPTIONS),
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
        reported,
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


# Runs where `tracking.to` names trackers, when all else is done.
rule export:
    input:
        reported,
    output:
        manifest=f"{ROOT}/tracking/{{tracker}}/manifest.json",
    log:
        f"{LOGS}/tracking/{{tracker}}.log",
    benchmark:
        f"{BENCHMARKS}/tracking/{{tracker}}.tsv"
    conda:
        ENVIRONMENT
    params:
        settings=settings_of("export"),
        root=root_of,
    shell:
        "progpo export {params.root:q} --to {wildcards.tracker} --settings {params.settings:q}"
        " --folder {output.manifest:q} --strict > {log:q} 2>&1"
