# Everything starts here; `make help` lists the targets. Each target does its own set-up, so a fresh
# machine needs python3, make and a package index, no more.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
DTYPES ?= float32,float64,bfloat16,int64,bool

bin    := $(VENV)/bin
python := $(bin)/python

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format parity oracle bench doctor clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.with-plot  ## train a small GPT, compare it with count models, let it write (ARGS="--resume")
	$(bin)/rushlight demo $(ARGS)

test: $(VENV)/.with-test  ## the fast tests; need no PyTorch and no compiler
	$(python) -m pytest tests -m "not slow and not parity" --ignore=tests/parity $(ARGS)

test-all: $(VENV)/.with-test  ## the fast and the slow tests
	$(python) -m pytest tests -m "not parity" --ignore=tests/parity $(ARGS)

lint: $(VENV)/.with-dev  ## format, style, import directions, types
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(python) tools/arch_check.py
	$(python) tools/style_check.py
	$(bin)/pyright

format: $(VENV)/.with-dev  ## rewrite the files in the project's format
	$(bin)/ruff format .
	$(bin)/ruff check --fix .

parity: $(VENV)/.with-parity $(VENV)/.with-test  ## compare with PyTorch 2.13.0 (a large download)
	$(python) -m pytest tests/parity $(ARGS)

oracle: $(VENV)/.with-parity  ## replay PyTorch's operator database (ARGS="--update", "--list", "--only REGEX")
	$(python) tests/parity/oracle/generate.py build/oracle $(DTYPES)
	$(python) tests/parity/oracle/generate_stateful.py build/oracle
	$(python) tests/parity/oracle/check.py build/oracle $(ARGS)

bench: $(VENV)/.with-plot  ## measure the workloads, beside PyTorch where it is installed
	$(python) benchmarks/run.py $(ARGS)

doctor: $(VENV)/.with-core  ## say what this machine offers and what is missing
	$(bin)/rushlight doctor

clean:  ## remove the environment and everything that was generated
	rm -rf $(VENV) build dist out dump .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp file for each set of optional dependencies; pyproject.toml names them.
$(VENV)/.with-core: pyproject.toml tools/make_venv.sh
	@PYTHON=$(PYTHON) sh tools/make_venv.sh $(VENV)
	$(python) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.with-%: $(VENV)/.with-core
	$(python) -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

# Stamps are kept although only pattern rules make them.
.PRECIOUS: $(VENV)/.with-%
