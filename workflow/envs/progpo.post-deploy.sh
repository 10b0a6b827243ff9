#!/usr/bin/env bash
# Run by Snakemake inside the new environment, in the project's folder.
set -euo pipefail
pip install --constraint constraints.txt --editable .
