"""Defects that show only where a disk fails or a process is killed."""

from mutants.mutant import Mutant

PLACES = "tests/faults/test_disk_faults.py::test_every_place_fails_once"

MUTANTS = (
    Mutant(
        "files-written-in-place",
        "branchrank/artifacts.py",
        "        descriptor, name = create_beside(path)\n",
        "        descriptor, name = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), path\n",
        (f"{PLACES}[init]",),
    ),
    Mutant(
        "a-full-disk-is-not-said",
        "branchrank/artifacts.py",
        "                os.unlink(name)\n            raise\n",
        "                os.unlink(name)\n            return\n",
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
)
