# Two commands matter: `make demo` and `make test`. Each works in a fresh clone with nothing but Python 3.11 or 3.12.
PYTHON ?= $(shell for v in 3.12 3.11; do command -v python$$v >/dev/null 2>&1 && python$$v -c '' 2>/dev/null && { echo python$$v; exit; }; done; echo python3)
VENV ?= .venv
BIN := $(VENV)/bin
DEMO ?= gc25d-demo

.PHONY: demo test lint up clean

demo: $(VENV)/.installed
	$(BIN)/gc25d demo --out $(DEMO)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

up: $(VENV)/.installed
	$(BIN)/gc25d up --src $(DEMO)/source --out $(DEMO)/dataset --size 416x240

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info[:2] <= (3, 12) else "gc25d needs Python 3.11 or 3.12, this is " + sys.version.split()[0] + "; say which with: make PYTHON=/path/to/python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
