# Games -> demonstrations -> warm-up (SFT) -> [rollouts -> advantages -> update] x iterations -> evaluation -> report.
# Settings: config/README.md. Each box is a `progpo` command; see `progpo --help` to run one by hand.
from snakemake.utils import min_version

min_version("9.8")


# A config given on the command line stands alone if it names its experiment, else it overlays the default.
if "experiment" not in config:

    configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/tasks.smk"
include: "workflow/rules/warmup.smk"


if EXPERIMENT.corrections:

    include: "workflow/rules/correct.smk"


include: "workflow/rules/rollout.smk"
include: "workflow/rules/advantages.smk"
include: "workflow/rules/update.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/keep.smk"
include: "workflow/rules/report.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        f"{ROOT}/report/results.md",
        expand(f"{ROOT}/tracking/{{tracker}}/manifest.json", tracker=EXPERIMENT.tracking.to),
        kept(),


onstart:
    record_settings()


onsuccess:
    tell_results()
