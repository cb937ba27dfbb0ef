PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4
FAST = tests/test_house.py tests/config tests/metrics tests/generation tests/models/attention tests/report

.DEFAULT_GOAL := help
.PHONY: help quickstart check test endurance lint install dev clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: install  ## compare LSTM and Transformer on the built-in corpus, in a few minutes
	$(BIN)/python -m dialog compare quickstart/lstm_bahdanau quickstart/transformer --jobs 2

check: lint  ## style, types and the fast tests, in under a minute once mypy has its cache
	$(PYTEST) --dist=worksteal --quiet $(FAST)

test: dev  ## the tests, without a network or a GPU
	$(PYTEST) --dist=worksteal

endurance: dev  ## the long tests: kills, lost processes, mutants; before a release
	$(PYTEST) --dist=worksteal -m endurance

lint: dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: $(VENV)/.installed  ## a virtual environment with the package
dev: $(VENV)/.dev  ## the same, with what the tests need

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("dialog needs Python 3.11 or newer; run make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/.installed

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
