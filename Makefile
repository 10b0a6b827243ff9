# `make run`: set up and train the embedded default. `make test`: set up and test. Both need Python 3.11, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONFIG ?= config/config.yaml
CORES ?= all
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: run test test-vllm setup lint bench

run: setup
	progpo run --cores $(CORES) --configfile $(CONFIG)

# A process a core, of one thread, and one that mostly waits (tests/conftest.py). The tests of a file stay together, since
# they share what is slow to make; the longest files come first, which pytest-xdist would else reorder.
test: setup
	OMP_NUM_THREADS=1 pytest tests --numprocesses auto --dist loadfile --no-loadscope-reorder --durations 30

# The tests over vLLM itself, in its own environment (docs/vllm.md): make test-vllm VLLM=.venv-vllm
VLLM ?= .venv-vllm
test-vllm:
	OMP_NUM_THREADS=1 PATH="$(abspath $(VLLM))/bin:$$PATH" python -m pytest tests/real_vllm -rs

lint: setup
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow
	snakemake --lint

setup: $(VENV)/.ready

# The editable install follows the sources by itself: only new dependencies need a new setup.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# Each prints a table: the project beside a named peer, in one run. On a machine that does nothing else it takes about a
# quarter of an hour. ALFWORLD_DATA and WEBSHOP_DATA, where set, give the environments the official data.
bench: setup
	python -m benchmarks.advantages
	python -m benchmarks.alfworld $(if $(ALFWORLD_DATA),--data $(ALFWORLD_DATA))
	python -m benchmarks.rollout
	python -m benchmarks.update
	python -m benchmarks.webshop $(if $(WEBSHOP_DATA),--data $(WEBSHOP_DATA))
