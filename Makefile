# Everything a person or a machine does with Ringside. `make` alone lists it.
# The newest Python that is here, new enough and has venv's pip, which Debian packs separately;
# PYTHON=/path/to/python3 chooses another.
PYTHON ?= $(shell for python in python3.14 python3.13 python3.12 python3.11 python3; do \
  $$python -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
PYTEST := $(BIN)/pytest -q --numprocesses=2 --dist=loadfile
# Tests that wait leave room for more processes; tests/conftest.py says which files come first.
PYTEST_SLOW := $(PYTEST) --numprocesses=4 --no-loadscope-reorder

# Without its cache, every worker would compile all tests again, and every command the product.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-slow lint bench simulate docs picture wheel sbom audit lock

help: ## list what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile

run: .venv/.installed ## start everything on this machine; Ctrl-C ends it (PORT=8000)
	@$(BIN)/python manage.py up

test: .venv/.installed-dev ## all but the slow tests, on SQLite
	$(PYTEST) -m "not slow"

test-slow: .venv/.installed-dev ## the rest: load, kills, accessibility, and what is about the database on PostgreSQL
	$(PYTEST_SLOW) -m "slow and not alone"
	$(PYTEST) --numprocesses=0 -m alone
	$(PYTEST_SLOW) -m "not browser and (slow or not data)" --database=postgres

lint: .venv/.installed-dev ## style, types, floors, names, templates, migrations, Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/djangofmt --check --line-length 120 --indent-width 2 --profile django templates
	$(BIN)/python .ci/house.py
	$(BIN)/python .ci/budget.py
	$(BIN)/python .ci/reference.py --check
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/hadolint Dockerfile

bench: .venv/.installed-dev ## speed, as tables (needs PostgreSQL)
	$(BIN)/python -m benchmarks

simulate: .venv/.installed-dev ## try the statistics' promises on made-up votes; writes docs/reference/statistics.md
	$(BIN)/python -m benchmarks.simulations

docs: .venv/.installed-dev ## write docs/reference from the code
	$(BIN)/python .ci/reference.py

picture: .venv/.installed-dev ## film the README's moving picture (needs Chromium)
	$(BIN)/python .ci/picture.py

wheel: .venv/.installed-dev ## the product as a package: dist/ringside_arena-VERSION-py3-none-any.whl
	$(BIN)/python -m hatchling build --target wheel --directory dist

sbom: .venv/.installed-dev ## what the product is made of: sbom.json (CycloneDX)
	$(BIN)/cyclonedx-py requirements requirements.txt --output-reproducible --output-file sbom.json

# --strict: without it, packages that the service does not answer about count as safe.
audit: .venv/.installed-dev ## known advisories about its packages, from pypi.org
	$(BIN)/pip-audit --strict --require-hashes --disable-pip -r requirements.txt

lock: .venv/.installed-dev ## write requirements*.txt from pyproject.toml and requirements-dev.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  pyproject.toml --all-extras --group checkout -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  requirements-dev.in -o requirements-dev.txt

.venv/.installed: requirements.txt
	@test -n "$(PYTHON)" || { echo "Ringside needs Python 3.11 or newer with its modules venv and ensurepip," \
	  "and found none. Debian and Ubuntu have them in a package: sudo apt install python3-venv" >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes -r requirements.txt
	@touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes -r requirements-dev.txt
	@touch $@
