# Each target makes the virtual environment it needs, once; `make clean` removes it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

# The newest transformers, which Flair does not work with yet, in an environment of its own.
TRANSFORMERS5 := 5.23.0
VENV5 ?= .venv-hf5
HUGGINGFACE_TESTS := tests/hosts tests/runs/test_runs.py tests/runs/test_transformer_run.py

# Tests run in parallel, one thread each. The tests of a file stay together: they share what they train.
WORKERS ?= 2
IN_PARALLEL := --numprocesses $(WORKERS) --dist loadfile
test test-slow test-hf5: export OMP_NUM_THREADS ?= 1

.PHONY: help demo test test-slow test-hf5 docs lint format clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable '.[bench,dev,docs,ray,serve]'
	touch $@

$(VENV5)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV5)
	sed 's/^transformers==.*/transformers==$(TRANSFORMERS5)/' constraints.txt > $(VENV5)/constraints.txt
	$(VENV5)/bin/pip install --quiet --constraint $(VENV5)/constraints.txt torch
	$(VENV5)/bin/pip install --quiet --constraint $(VENV5)/constraints.txt --editable '.[dev]'
	touch $@

demo: $(VENV)/installed  ## train a CRF tagger and GSPEN on generated news, compare them, and tag a text
	rm -rf runs/demo
	$(BIN)/gspen-ner train quickstart --output runs/demo
	printf 'Halden closed its offices in Lisbon.\nThe insurer Halden Holdings gave no reason.\n' \
	    | $(BIN)/gspen-ner predict runs/demo -

test: $(VENV)/installed  ## the fast tests and all examples in docstrings
	$(BIN)/pytest $(IN_PARALLEL) -m 'not slow'

test-slow: $(VENV)/installed  ## the tests that take longer
	$(BIN)/pytest $(IN_PARALLEL) -m slow

test-hf5: $(VENV5)/installed  ## the Hugging Face tests with the newest transformers
	$(VENV5)/bin/pytest $(IN_PARALLEL) -m 'not slow' --ignore-glob='*flair*' $(HUGGINGFACE_TESTS)

docs: $(VENV)/installed  ## the documentation, in build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

lint: $(VENV)/installed  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) $(VENV5) .pytest_cache .mypy_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
