PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO := corpus/005-resnet-residual-iadd/train.py

# one thread a process: tests and candidates run side by side
export OMP_NUM_THREADS := 1

.PHONY: installed demo test lint docs clean

installed: $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/shrinkrepro $(DEMO)

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(INSTALLED)
	$(BIN)/python docs/catalogue.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python docs/examples.py --check README.md $(wildcard docs/*.md)

clean:
	rm -rf $(VENV) site

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt -e ".[test,docs]"
	touch $@
