# `make demo` and `make test` do everything from nothing; `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What .venv is made with: make setup PYTHON3=python3.12
PYTHON3 ?= python3
# What the files of a GPU's measurements are called
CARD ?= gpu
# The GPU targets also run where nothing can be installed, with a python3 that has PyTorch already.
PYTHON = $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)

.PHONY: help setup demo model test test-slow lint tables starters measured drawings traces notebooks pairs docs docs-serve docs-test \
	gpu-test gpu-bench clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/\1:/p' $(MAKEFILE_LIST) | awk -F: '{printf "%-11s%s\n", $$1, $$2}'

setup: $(STAMP)  ## create .venv and install minfer there

$(STAMP): pyproject.toml constraints-cpu.txt scripts/setup.sh
	sh scripts/setup.sh "$(PYTHON3)" "$(VENV)"
	@touch $(STAMP)

demo: setup  ## get the default model and run it through every stage of the ladder
	$(BIN)/minfer demo

model: setup  ## get the default model (93 MB)
	$(BIN)/minfer pull smollm2-135m

test: model  ## run the tests that need no GPU, less the slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not gpu and not slow and not site"

test-slow: model  ## run the slow ones: every chapter's check, and the grader
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "slow and not gpu and not site"

lint: setup  ## check the style, the numbers of all pages, and that the starters are in step
	$(BIN)/ruff check .
	$(BIN)/python scripts/tables.py --check
	PYTHONPATH=. $(BIN)/python scripts/starters.py --check

tables: setup  ## write the numbers of README.md, docs and chapters from what was measured
	$(BIN)/python scripts/tables.py

measured: setup  ## measure again what the chapters measure by themselves, on this machine
	for each in $(wildcard chapters/*/measure.py); do PYTHONPATH=. $(BIN)/python "$$each" || exit 1; done

drawings: setup  ## draw the chapters' drawings
	for each in $(wildcard chapters/*/drawing.py); do PYTHONPATH=. $(BIN)/python "$$each" || exit 1; done

traces: model  ## record the traces that chapters and start page show
	OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python scripts/record_traces.py

pairs: setup  ## write each notebook.ipynb from the script beside it
	$(BIN)/python scripts/pairs.py

notebooks: model  ## run all notebooks from top to bottom
	OMP_NUM_THREADS=1 PYTHONPATH="$(CURDIR)" $(BIN)/python -m pytest -n 2 --nbmake --nbmake-timeout=180 --durations=0 \
		$(wildcard chapters/*/notebook.ipynb notebooks/*.ipynb)

starters: setup  ## write the chapters' part.py from the reference parts, and the list of chapters
	PYTHONPATH=. $(BIN)/python scripts/starters.py

docs: $(if $(filter 0,$(DOCS_NOTEBOOKS)),setup,model)  ## build the documentation into site/, and as a zip that opens from a disk; DOCS_NOTEBOOKS=0 runs no notebooks
	OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/mkdocs build --strict
	PYTHONPATH=. $(BIN)/python scripts/site_zip.py site dist/minfer-docs.zip

docs-serve: setup  ## show the documentation while you write it, on port 8000 of this machine
	DOCS_NOTEBOOKS=0 OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/mkdocs serve

docs-test: docs  ## open every page of the documentation in a browser, drive the trace player, and look for errors
	sh scripts/browser.sh $(BIN)/python
	MINFER_SITE=site OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(wildcard tests/test_site*.py) tests/test_trace_browser.py

gpu-test:  ## run the tests that need a GPU
	PYTHONPATH=. $(PYTHON) -m pytest -m gpu

gpu-bench:  ## measure all that the pages say of a GPU; CARD names it in the files
	PYTHONPATH=. PYTHON=$(PYTHON) sh scripts/gpu_bench.sh benchmarks/results $(CARD)

clean:  ## remove what make has made here; models stay in ~/.cache
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
