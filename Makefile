# The one list of commands, for people and for CI. Everything lives inside this folder: the virtual
# environment, the downloads and the caches.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test check fast format lint types imports integration bench cover lock clean

# The first interpreter that is new enough and can make a virtual environment; or give PYTHON=…
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo "$$p"; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip -qq
# Runs what follows in a private temporary folder; fails if a process is left over.
TIDY := $(PY) tests/tidy.py
# A file's tests stay together, because they share what they start. Those with real services wait most
# of the time, so more of them fit on a machine.
TOGETHER := -n 2 --dist loadfile
WHICH :=
WAITING := -n 4 --dist loadfile --no-loadscope-reorder

export PIP_CACHE_DIR ?= $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

help:         ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(VENV)/.dev  ## make .venv with all that the other targets need

demo: $(VENV)/.base  ## set everything up, evaluate for real on local workers, print the reports
	$(PY) demo/run.py

test: $(VENV)/.dev  ## all tests, real Redis and real workers included; needs no service
	$(TIDY) $(PY) -m pytest $(TOGETHER)
	$(TIDY) $(PY) -m pytest $(WAITING) -m integration --durations=10

check: lint types imports fast  ## what must be green before a change lands, about a minute

fast: $(VENV)/.dev  ## the tests without real services: unit, contract, property, fault
	$(TIDY) $(PY) -m pytest $(TOGETHER) $(WHICH)

integration: $(VENV)/.dev  ## only the tests with real Redis, real workers, kill -9
	$(TIDY) $(PY) -m pytest $(WAITING) -m integration

format: $(VENV)/.dev  ## let the tools rewrite what they can
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(VENV)/.dev  ## formatting and lint, without changing anything
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: $(VENV)/.dev  ## mypy, strict
	$(BIN)/mypy

imports: $(VENV)/.dev  ## the layers, see [tool.importlinter] in pyproject.toml
	$(BIN)/lint-imports

bench: $(VENV)/.dev  ## what an attempt costs, as ratios to floors measured in the same run
	$(TIDY) $(PY) -m bench

cover: $(VENV)/.dev  ## branch coverage of the fast tests; the pure core must be complete
	$(TIDY) $(PY) -m coverage run -m pytest
	$(PY) -m coverage report --fail-under=100 --include='agentcompass/models/*,agentcompass/metrics/*,agentcompass/store/*'
	$(PY) -m coverage report --fail-under=90

lock:         ## renew constraints.txt from the newest releases that the bounds allow
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip --quiet install --upgrade pip
	.venv-lock/bin/python -m pip --quiet install --editable '.[humaneval]' --group dev
	.venv-lock/bin/python -m pip --quiet install --no-deps mini-swe-agent
	{ grep '^#' constraints.txt; \
	  { .venv-lock/bin/python -m pip freeze --all --exclude-editable | grep -v '^setuptools=='; \
	    grep '^async-timeout==' constraints.txt; } | LC_ALL=C sort -f -u; } > constraints.new
	mv constraints.new constraints.txt && rm -rf .venv-lock

clean:        ## remove all that the targets above made, results excepted
	rm -rf .venv .venv-* .cache .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache \
	  .ruff_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp says that its step ended well; a change of the files behind it repeats the step.
$(VENV)/.base: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed (Debian: apt-get install python3-venv)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt pip
	$(PIP) install --constraint constraints.txt --editable '.[humaneval]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) install --constraint constraints.txt --group dev
	$(PIP) install --constraint constraints.txt --no-deps mini-swe-agent
	@touch $@
