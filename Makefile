# Three commands: `make setup`, `make run`, `make test`. They need Python 3.11+, make and PyPI, nothing else.
# `make check` is for while you work: lint, types, and the tests that need no server, in less than 40 s.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 4
# Tests that start no server, in short.
QUICK := $(addprefix tests/,architecture bench docs domain models schemas links/test_displacement.py \
	gateway/test_cursors.py gateway/test_graph_arguments.py gateway/test_import_batches.py \
	gateway/test_link_arguments.py gateway/test_schema.py) --ignore=tests/models/test_sectors.py

# Else each process that a test starts compiles our code, and each of pytest's rewrites all assertions anew.
unit quick: export PYTHONDONTWRITEBYTECODE =

.PHONY: setup run test check lint types unit quick lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

run: setup
	$(BIN)/engramq up

test: setup lint types unit

check: setup lint types quick

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

unit: setup
	$(BIN)/pytest -n $(JOBS)

quick: setup
	$(BIN)/pytest -n 2 $(QUICK)

lock: setup
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--extra dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache dist
