# The one door: `make help` lists what there is. Needs Python 3.11 or newer and make, nothing else.

VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PYTEST ?= $(BIN)/pytest

# 3.11 first: it is what the tests run with. The others follow in the order in which dependencies support them.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Some environments switch Python's byte-code cache off; the many processes of a run then compile all they import.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-bounds test-fast fuzz check format reference bench chaos chaos-mutations doctor clean upgrade

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## a live topology on generated data, about a minute
	@$(BIN)/penstock demo

test: $(STAMP) ## every test, with Spark
	@$(PYTEST) -q -n 2 --dist worksteal -m 'not spark'
	@$(BIN)/python -m tests.bounds
	@$(PYTEST) -q -n 2 --dist worksteal -m 'spark and not chaos and not upgrade'

test-bounds: $(STAMP) ## the tests of everything that is compiled, with bounds checks: two minutes
	@$(BIN)/python -m tests.bounds

test-fast: $(STAMP) ## the quick tests, which need no JVM: about 20 seconds
	@$(PYTEST) -q -n 2 -m 'not spark and not long' --ignore-glob="*/net" --ignore-glob="*/spark" --ignore=tests/apps --ignore=tests/docs --ignore=tests/fuzz

upgrade: $(STAMP) ## runs of one Python or Polars continue under another; installs both (once; some minutes)
	@$(BIN)/python -m tests.upgrades.environments
	@$(PYTEST) -q -m upgrade tests/spark/test_other_releases.py

fuzz: $(STAMP) ## mutated captures through all decoders (INPUTS=1000000, HEAVY=20000, SECONDS=, GUIDED=60, SEED=1)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[fuzz]'
	@$(BIN)/python -m tests.fuzz $(if $(INPUTS),--inputs $(INPUTS)) $(if $(HEAVY),--heavy-inputs $(HEAVY)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(GUIDED),--guided-seconds $(GUIDED)) $(if $(SEED),--seed $(SEED))

check: $(STAMP) ## formatting, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP) ## put the code into its canonical form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

reference: $(STAMP) ## write docs/reference from the docstrings
	@$(BIN)/python -m tests.docs.reference

bench: $(STAMP) ## every benchmark, median of three (BENCH=name for one)
	@$(BIN)/penstock bench $(BENCH)

chaos: $(STAMP) ## faults of all kinds against every operator and application (SECONDS=600, SEED=0)
	@$(BIN)/penstock chaos --seconds $(or $(SECONDS),600) --seed $(or $(SEED),0)

chaos-mutations: $(STAMP) ## show that tests and chaos turn red on broken copies of Penstock, and stay green on a whole one
	@$(BIN)/python -m tests.mutations

doctor: $(STAMP) ## what this machine has and lacks
	@$(BIN)/penstock doctor

clean: ## remove the environment and everything that was generated
	rm -rf $(VENV) .upgrades out dist .penstock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Rebuilt only when pyproject.toml changes.
$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Penstock needs Python 3.11 or newer: install it, or set PYTHON=/path/to/python" >&2; exit 1; }
	@echo "creating $(VENV) with $(PYTHON) (once; a few minutes on a slow line)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -m penstock.spark.java --install
	@echo "compiling kernels (once)"
	@$(BIN)/python -m penstock.engine.warm
	@$(BIN)/python -m penstock.apps.warm 2>/dev/null
	@echo "recording the classes of Spark for quicker starts (once)"
	@$(BIN)/python -m penstock.spark.classes
	@touch $(STAMP)
