"""Defects that show only where a disk fails or a process is killed."""

from mutants.mutant import Mutant

PLACES = "tests/faults/test_disk_faults.py::test_every_disk_operation_fails_once"

REFUSED = "tests/damaged_files/test_damaged_files.py::test_links_and_decompression_bombs_are_refused"
MUTATED_INPUTS = "tests/fuzz/test_fuzz.py::test_mutated_inputs_are_read_or_refused"
FOUND_INPUTS = "tests/fuzz/test_fuzz.py::test_an_input_that_failed_once_is_read_or_refused"
SEEDS = "tests/fuzz/test_fuzz.py::test_the_seeds_are_valid"

MUTANTS = (
    Mutant(
        "files-written-in-place",
        "branchrank/io/files.py",
        "    descriptor, name = create_beside(path)\n",
        "    descriptor, name = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), path\n",
        (f"{PLACES}[init]",),
    ),
    Mutant(
        "a-full-disk-is-not-said",
        "branchrank/io/files.py",
        "            os.unlink(name)\n        raise\n",
        "            os.unlink(name)\n        return\n",
        (f"{PLACES}[init]",),
    ),
    Mutant(
        "finished-before-the-report-is-written",
        "branchrank/bench/benchmark.py",
        "        publish(measured)\n        finished = sealed(directory, measured.record)\n"
        "        write_run(directory, finished)\n",
        "        finished = sealed(directory, measured.record)\n        write_run(directory, finished)\n"
        "        publish(measured)\n",
        (f"{PLACES}[benchmark]",),
    ),
    Mutant(
        "what-a-killed-run-left-stays",
        "branchrank/bench/benchmark.py",
        "            clear_temporary(directory)\n",
        "            pass\n",
        (f"{PLACES}[benchmark]",),
    ),
    Mutant(
        "a-link-of-a-killed-build-stays",
        "branchrank/index/generations.py",
        'link.with_name(f".{link.name}.tmp")',
        'link.with_name(f".{link.name}.{os.getpid()}.tmp")',
        (f"{PLACES}[first index]",),
    ),
    Mutant(
        "what-a-killed-search-left-stays",
        "branchrank/io/files.py",
        "            fcntl.flock(descriptor, fcntl.LOCK_EX)\n            remove_temporary(folder)\n",
        "            fcntl.flock(descriptor, fcntl.LOCK_EX)\n",
        (f"{PLACES}[benchmark]",),
    ),
    Mutant(
        "deep-nesting-is-a-traceback",
        "branchrank/io/files.py",
        "NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
        "NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError)",
        (f"{FOUND_INPUTS}[run-json/nested-5000]",),
    ),
    Mutant(
        "compact-rows-unpack-without-limit",
        "branchrank/runs/row_files.py",
        "            if found > most:\n",
        "            if found > 1000 * most:\n",
        (REFUSED,),
    ),
    Mutant(
        "links-in-a-run-are-followed",
        "branchrank/runs/directory.py",
        "            open_beneath(directory, name).close()\n",
        "            (directory / name).stat()\n",
        (REFUSED,),
    ),
    Mutant(
        "a-query-is-an-expression-of-fts5",
        "branchrank/stores/sqlite_fts5.py",
        """'"' + term.replace('"', '""') + ('"*' if prefix else '"')""",
        "term + ('*' if prefix else '')",
        (f"{FOUND_INPUTS}[fts5-query/operators]",),
    ),
    Mutant(
        "the-sizes-of-arrays-are-not-compared",
        "branchrank/stores/npy_file.py",
        "    if size != wanted or dtype.hasobject:\n",
        "    if dtype.hasobject:\n",
        (f"{FOUND_INPUTS}[vectors/more-bytes]",),
    ),
    Mutant(
        "a-reply-names-what-it-was-not-shown",
        "branchrank/llm/parsing.py",
        "    named = list(dict.fromkeys(known[word] for word in words if word in known))\n",
        "    named = list(dict.fromkeys(known.get(word, word) for word in words))\n",
        (f"{MUTATED_INPUTS}[llm-reply]",),
    ),
    Mutant(
        "grep-sees-a-pattern",
        "branchrank/files/grep.py",
        "        literal = re.escape(self.text)\n",
        "        literal = self.text\n",
        (f"{FOUND_INPUTS}[grep-query/parenthesis]",),
    ),
)
