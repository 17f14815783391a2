# Every target sets up what it needs: Python 3.11 to 3.13 is all that must be there.
.PHONY: setup demo test test-spark check format docs lock bench dev clean
BIN := .venv/bin

setup: .venv/.installed

.venv/.installed: requirements.lock pyproject.toml scripts/setup
	@scripts/setup

demo: setup
	@$(BIN)/ett demo demo

test: setup
	@scripts/test

test-spark: setup
	@$(BIN)/pytest --engine 'local[2]'

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/glossaries.py --check

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: setup
	@$(BIN)/python scripts/glossaries.py

# One universal lock that both uv and pip install from, with hashes.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-header --no-annotate --no-strip-extras --group dev --extra webserver \
	    pyproject.toml -o requirements.lock

bench: setup
	@benchmarks/run

dev: setup
	@DAGSTER_HOME=$(CURDIR) $(BIN)/dagster dev -m pipelines.definitions

clean:
	rm -rf .venv demo .dagster
