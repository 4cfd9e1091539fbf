# Twinfleet. `make` lists the commands; `make up` on a fresh clone installs, downloads and serves.

PYTHON   ?= python3
VENV     := .venv
BIN      := $(VENV)/bin
INSTALLED := $(VENV)/.installed
STAMP    := $(VENV)/.ready
NATIVE   := $(wildcard common/kernels/native/*) common/kernels/build.py
TOPOLOGY ?= 1p1d
MODEL    ?=
PORT     ?= 8000
SCENARIO ?= chat
# For the load test, the benchmarks and the profile: options of the program behind the target.
ARGS     ?=
TORCH    := torch==2.13.0
# Where torch comes from, if not from pip's own index: the address that PyTorch's installation page
# gives for a CPU or a CUDA build.
TORCH_INDEX ?=
LOCAL    := $(BIN)/python -m deploy.local
NOT_UNIT := cluster or sim or gpu or slow

.DEFAULT_GOAL := help
.PHONY: help setup fmt lint check test test-full sim cluster gpu ci up down status logs demo trace docs size clean \
        loadtest bench-engine bench-costs bench-peers bench-http profile

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?/  make \1\t/' | expand -t 22
	@echo
	@echo "  TOPOLOGY=$(TOPOLOGY)  PORT=$(PORT)  MODEL=$(if $(MODEL),$(MODEL),the default model)"
	@echo "  scenarios:  $(basename $(notdir $(wildcard loadtest/scenarios/*.toml)))"
	@echo "  topologies: $(basename $(notdir $(wildcard deploy/local/topologies/*.toml)))"

setup: $(INSTALLED)  ## make .venv with everything in it (quick when it is up to date)
	@$(BIN)/python -m common.kernels.build
	@touch $(STAMP)

$(STAMP): $(INSTALLED) $(NATIVE)
	@$(BIN)/python -m common.kernels.build
	@touch $@

$(INSTALLED): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { \
	  echo "There is no $(PYTHON) here. Install Python 3.11 or newer, or name one: make setup PYTHON=/path"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is $$($(PYTHON) -V), and 3.11 or newer is needed: make setup PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make a virtual environment. On Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null || \
	  echo "Downloading torch: about 250 MB as a CPU wheel; several times that with CUDA, which plain PyPI" \
	       "gives to x86 Linux (TORCH_INDEX names another index, see README.md)"
	@echo "Installing into $(VENV); the other packages are about 150 MB when nothing is cached"
	$(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	$(BIN)/python -m pip install --quiet -e '.[engine,loadtest,dev]'
	@touch $@

fmt: $(STAMP)  ## format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tests.support.size_report

check: lint  ## format, lint, types, layers, sizes, unit tests
	$(BIN)/python -m pytest -m "not ($(NOT_UNIT))" --ignore=tests/contracts

# Tests with the default model fetch it (90 MB) if it is not in the cache.
test test-full cluster: export TWINFLEET_TEST_DOWNLOAD = 1

test: lint  ## check + contracts + sim + cluster: what CI runs
	$(BIN)/python -m pytest -m "not (gpu or slow)"

test-full: lint  ## test + the slow ones
	$(BIN)/python -m pytest -m "not gpu"

sim: $(STAMP)  ## the services on a virtual clock
	$(BIN)/python -m pytest -m sim tests/sim

cluster: $(STAMP)  ## tests with real processes
	$(BIN)/python -m pytest -m cluster tests/cluster tests/contracts tests/deploy

gpu: $(STAMP)  ## tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

ci:  ## what CI runs, as it runs it
	bash .ci/run

up: $(STAMP)  ## start a cluster: TOPOLOGY=1p1d MODEL=path PORT=8000
	@$(LOCAL) up --topology "$(TOPOLOGY)" --model "$(MODEL)" --port "$(PORT)"

down: $(STAMP)  ## stop it
	@$(LOCAL) down

status: $(STAMP)  ## what every process does
	@$(LOCAL) status

logs: $(STAMP)  ## the end of all logs, by time
	@$(LOCAL) logs

demo: $(STAMP)  ## stream one answer in the terminal
	@$(LOCAL) demo

trace: $(STAMP)  ## what the gateway remembers of a request: ID=chatcmpl-...
	@$(if $(ID),,echo "Which request? make trace ID=chatcmpl-..."; exit 1;) $(LOCAL) trace "$(ID)"

docs: $(STAMP)  ## write the generated pages again
	$(BIN)/python -m docs.settings_page
	$(BIN)/python -m docs.wire_page
	$(BIN)/python -m docs.states_page
	$(BIN)/python -m docs.workloads_page

loadtest: $(STAMP)  ## measure the running cluster, or all sides of a scenario: SCENARIO=chat ARGS="--rate 4"
	@$(BIN)/python -m loadtest run --scenario "$(SCENARIO)" --model "$(MODEL)" $(ARGS)

bench-engine: $(STAMP)  ## speed of the engine beside the machine's floors: ARGS="--quick --threads 1"
	@mkdir -p build
	@$(BIN)/python -m common.engine.bench --model "$(MODEL)" --json build/bench-engine.json $(ARGS)

bench-costs: $(STAMP)  ## what steps cost here, for loadtest predict: build/costs.json, 3 minutes
	@mkdir -p build
	@$(BIN)/python -m common.engine.bench.costs --model "$(MODEL)" --json build/costs.json $(ARGS)

bench-peers: $(STAMP)  ## other engines, interleaved with ours: ARGS="--venv llama=/path"
	@mkdir -p build
	@$(BIN)/python -m common.engine.bench.peers --model "$(MODEL)" --json build/bench-peers.json $(ARGS)

bench-http: $(STAMP)  ## the running cluster's throughput beside the engine's own: ARGS="--streams 16"
	@$(LOCAL) overhead --model "$(MODEL)" $(ARGS)

profile: $(STAMP)  ## where a step of 32 streams goes: ARGS="--streams 8"
	@$(BIN)/python -m common.engine.bench.profile --model "$(MODEL)" $(ARGS)

size: $(STAMP)  ## lines by package, and what is largest
	@$(BIN)/python -m tests.support.size_report

clean:  ## remove caches, build output and the run folder (.venv and models stay)
	@test ! -d .run || test ! -x $(BIN)/python || $(LOCAL) down
	rm -rf .run build dist common/kernels/built $(STAMP) *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find common services deploy loadtest tests -name __pycache__ -type d -prune -exec rm -rf {} +
