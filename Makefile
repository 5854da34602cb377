# `make help` lists the targets. Each is one command that also works by itself inside .venv.
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate pyproject.toml

.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE # else each of the many processes of the tests compiles our files anew
export NO_MKDOCS_2_WARNING := 1 # Material's banner; mkdocs.yml is kept fit for its successor, Zensical
.PHONY: help serve test test-all test-changed test-gpu mutants record record-gpu gpu check replay site lint lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

serve: $(VENV)/site.done ## read and edit the site at http://127.0.0.1:8000, with live reload
	@$(BIN)/python -c 'import socket; socket.create_server(("127.0.0.1", $(PORT))).close()' 2>/dev/null \
	  || { echo "Port $(PORT) is taken. Try: make serve PORT=$$(( $(PORT) + 1 ))"; exit 1; }
	@echo "The site will be at http://127.0.0.1:$(PORT)/ in a few seconds; Ctrl-C stops it."
	@$(BIN)/mkdocs serve --dev-addr 127.0.0.1:$(PORT)

test: $(VENV)/all.done ## run the tests that take little: tests/quick.py says what it leaves out
	$(BIN)/pytest --quick -n auto --dist worksteal
	$(BIN)/ruff check

test-all: $(VENV)/all.done ## run every test that needs no GPU; CI runs these and make replay
	$(BIN)/pytest -m "not replay" -n auto --dist worksteal
	$(BIN)/ruff check

test-changed: $(VENV)/all.done ## run what the uncommitted change can touch; BASE=main: what came since then, too
	$(BIN)/python -m tests.changed $(BASE)

test-gpu: $(VENV)/gpu.done ## run what is tested on a GPU, doctests and the code of pages included
	$(BIN)/pytest -m "gpu and not alone" -n auto --maxprocesses 8 --dist worksteal -v
	$(BIN)/pytest -m "gpu and alone" -v

mutants: $(VENV)/all.done ## plant faults in kernels and host functions, and name those that no test catches
	$(BIN)/python -m tests.mutants

record: $(VENV)/all.done ## run what is stale and write its recordings
	$(BIN)/python -m recorder run

record-gpu: $(VENV)/gpu.done ## run what this machine's GPU has not recorded yet, perhaps for hours; NAMES="programs/vector_add …": only those
	$(BIN)/python -m recorder run --device gpu $(NAMES)

gpu: $(VENV)/gpu.done ## what gpu.yml does, on a machine with an NVIDIA GPU; ALL=1: record everything anew, for hours
	$(BIN)/python -m recorder.tools
	$(BIN)/python -m recorder run --replace $(if $(ALL),--all --device gpu,--stale)
	$(BIN)/python -m recorder check --replay gpu
	@$(MAKE) --no-print-directory test-gpu site

check: $(VENV)/site.done ## say what is stale, missing, untested, or wrong on a page; needs no torch
	$(BIN)/python -m render check

replay: $(VENV)/all.done ## run every snippet and lab that needs no GPU again and compare with its recording
	$(BIN)/pytest -m replay -n auto --maxschedchunk 1 tests/test_replay.py

site: check ## build the site into site/, refusing anything stale, missing, lost or broken
	$(BIN)/mkdocs build --strict
	$(BIN)/python -m render check --built site

lint: $(VENV)/all.done ## check the style of the code and the workflows
	$(BIN)/ruff check
	$(BIN)/zizmor --offline --strict-collection .github/workflows

# The part of each file above its marker line is written by hand, the part below it by this.
lock: $(VENV)/all.done ## pin the newest versions that pyproject.toml allows
	@for f in requirements-site.txt requirements.txt requirements-gpu.txt; do sed -i '/^# Below this line/q' $$f; done
	$(UV_COMPILE) --extra dev > $(VENV)/pins
	$(UV_COMPILE) --constraint $(VENV)/pins >> requirements-site.txt
	grep -vxFf requirements-site.txt $(VENV)/pins >> requirements.txt
	$(UV_COMPILE) requirements.txt --extra gpu > $(VENV)/pins-gpu
	grep -vxFf requirements-site.txt $(VENV)/pins-gpu | grep -vxFf requirements.txt | grep -vE '^(torch|triton)==' \
	  >> requirements-gpu.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.12 --no-python-downloads --generate-hashes --no-annotate \
	  --custom-compile-command 'make lock' --constraint $(VENV)/pins pyproject.toml > .github/requirements-deploy.txt

clean: ## delete the environment and everything that was built
	rm -rf $(VENV) site .cache *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Python 3.11 or newer is needed. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "$(PYTHON) has no venv module. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/site.done: $(VENV)/bin/python requirements-site.txt pyproject.toml
	@echo "Installing what builds the site into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-site.txt
	@touch $@

$(VENV)/all.done: $(VENV)/site.done requirements.txt
	@echo "Installing what runs and tests the snippets into $(VENV); torch is large ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/gpu.done: $(VENV)/all.done requirements-gpu.txt
	@echo "Installing what snippets take on a GPU into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-gpu.txt
	@touch $@
