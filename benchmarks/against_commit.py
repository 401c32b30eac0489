"""Compare the results and the speed of the working tree with those of an earlier commit.

    python benchmarks/against_commit.py rows 61c8f7d --symfony ../shared/corpora/symfony-docs \
        --questions ../shared/questions/symfony-dev.jsonl
    python benchmarks/against_commit.py speed 61c8f7d --pairs 10
    python benchmarks/against_commit.py journeys 61c8f7d

``rows`` indexes each corpus with both versions, mines questions from Symfony's documents, runs every
built-in predictor over all questions, and compares the chunks, the tree, the mined questions and the rows
byte for byte. ``speed`` runs each command alternately with both versions, and prints the mean ratios of their
wall times and of their CPU times (working tree divided by commit) with 95% intervals. CPU times vary less if
other programs are running. The exit code is 1 if rows differ, or if both intervals of a command are wholly
above 1.05.

``journeys`` prints in how many modules of the package functions are called during some commands.

The earlier version is checked out into a temporary folder and runs with the same interpreter and packages.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "data" / "sample"
PREDICTORS = ("family", "bm25", "dense")
LIMIT = 1.05
#: The files of a workspace and of a run that must be identical. Times are in other files.
COMPARED = (
    "chunks.jsonl",
    "pageindex/nodes.jsonl",
    "mined.jsonl",
    "reports/*/rows.jsonl",
    "reports/*/questions.jsonl",
)


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check out ``commit`` (a commit, or the folder of a checkout) and return its folder."""
    if Path(commit).is_dir():
        yield Path(commit).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


#: Runs a command and writes the number of the package's modules whose functions were called to ``modules``.
COUNTED = """
import sys, threading
called = set()
def profile(frame, event, argument):
    if event == "call" and frame.f_code.co_name != "<module>":
        called.add(frame.f_code.co_filename)
from branchrank.frontends.cli.main import main
threading.setprofile(profile)
sys.setprofile(profile)
try:
    main(sys.argv[1:])
finally:
    sys.setprofile(None)
    own = sys.modules["branchrank"].__path__[0]
    open("modules", "w").write(str(sum(name.startswith(own) for name in called)))
"""


def branchrank(
    version: Path, folder: Path, *arguments: str, run: Sequence[str] = ("-m", "branchrank")
) -> tuple[float, float]:
    """Run a command of ``version`` in ``folder``, and return its wall and CPU times in seconds."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BRANCHRANK_")}
    environment["PYTHONPATH"] = str(version)
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *run, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, now = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{version}: branchrank {' '.join(arguments)} failed:\n{done.stderr}")
    return seconds, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def index(version: Path, folder: Path, corpus: Path) -> None:
    """Index ``corpus`` in ``folder/data`` with stored token vectors."""
    flags = ("--embedder", "all-MiniLM-L6-v2", "--token-vectors", "int8", "--quiet")
    branchrank(version, folder, "index", str(corpus), "--data-dir", "data", *flags)


def benchmark(version: Path, folder: Path, questions: Path) -> None:
    """Run every built-in predictor over ``questions`` without a latency pass."""
    chosen = itertools.chain.from_iterable(("--predictor", name) for name in PREDICTORS)
    flags = ("--questions", str(questions), "--latency-sample", "0", "--fresh", "--quiet")
    flags += ("--hybrid-passage-order", "scores")  # the only order that earlier versions have
    branchrank(version, folder, "benchmark", "--data-dir", "data", *chosen, *flags)


def digests(folder: Path) -> dict[str, str]:
    """Return the digests of the compared files in ``folder``, by their paths without the time of the run."""
    found = {}
    for pattern in COMPARED:
        for number, path in enumerate(sorted([*folder.glob(pattern), *folder.glob(f"data/{pattern}")])):
            found[f"{pattern} {number}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def made(version: Path, folder: Path, corpus: Path, questions: Path, mine: bool) -> dict[str, str]:
    """Index and benchmark a corpus with one version in ``folder``, and return the digests of its files."""
    folder.mkdir(parents=True)
    index(version, folder, corpus)
    benchmark(version, folder, questions)
    if mine:
        branchrank(version, folder, "questions", "mine", "--data-dir", "data", "--output", "mined.jsonl")
        benchmark(version, folder, folder / "mined.jsonl")
    return digests(folder)


def compare_rows(commit: str, corpora: dict[str, tuple[Path, Path, bool]], kept: Path | None) -> bool:
    """Print for each corpus which files differ between the versions, and return whether all are identical."""
    same = True
    with checkout(commit) as before, tempfile.TemporaryDirectory() as folder:
        for name, (corpus, questions, mine) in corpora.items():
            old_folder = (kept or Path(folder)) / name / "before"
            old = (
                digests(old_folder)
                if old_folder.exists()
                else made(before, old_folder, corpus, questions, mine)
            )
            new = made(ROOT, Path(folder) / name / "after", corpus, questions, mine)
            for path in sorted(old | new):
                equal = old.get(path) == new.get(path)
                same &= equal
                print(f"{name:8} {path:34} {'identical' if equal else 'DIFFERS'}", flush=True)
    return same


def compare_speed(commit: str, pairs: int) -> bool:
    """Print the ratios of each command's times, and return whether none is clearly above the limit."""
    commands: dict[str, tuple[str, ...]] = {
        "--help": ("--help",),
        "index": (
            "index",
            str(SAMPLE / "corpus"),
            "--data-dir",
            "new",
            "--embedder",
            "all-MiniLM-L6-v2",
            "--quiet",
        ),
        "retrieve": ("retrieve", "how do I resume a run", "--data-dir", "data"),
        "hybrid": ("hybrid", "how do I resume a run", "--data-dir", "data", "--hybrid-no-llm"),
        "questions mine": ("questions", "mine", "--data-dir", "data", "--output", "mined.jsonl"),
        "benchmark": (
            *("benchmark", "--data-dir", "data", "--questions", str(SAMPLE / "questions.jsonl"), "--fresh"),
            *("--hybrid-no-llm", "--pageindex-no-llm", "--sample-size", "150", "--reports", "new", "--quiet"),
        ),
    }
    fine = True
    with checkout(commit) as before, tempfile.TemporaryDirectory() as folder:
        versions = {before: Path(folder) / "before", ROOT: Path(folder) / "after"}
        for version, place in versions.items():
            place.mkdir()
            index(version, place, SAMPLE / "corpus")
        for name, command in commands.items():
            ratios = []
            for number in range(pairs + 1):
                seconds = {}
                for version in sorted(versions, key=str, reverse=bool(number % 2)):
                    for made_file in ("new", "mined.jsonl"):
                        shutil.rmtree(versions[version] / made_file, ignore_errors=True)
                        (versions[version] / made_file).unlink(missing_ok=True)
                    seconds[version] = branchrank(version, versions[version], *command)
                if number:  # the first pair fills the caches of the operating system
                    ratios.append(np.divide(seconds[ROOT], seconds[before]))
            logs = np.log(ratios)
            half = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
            rows = np.exp([logs.mean(axis=0), logs.mean(axis=0) - half, logs.mean(axis=0) + half]).T
            fine &= bool((rows[:, 1] <= LIMIT).any())
            wall, cpu = (f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in rows)
            print(f"{name:16} wall {wall}   CPU {cpu}", flush=True)
    return fine


def count_journeys(commit: str) -> None:
    """Print for each command in how many modules it calls functions, in both versions."""
    questions = str(SAMPLE / "questions.jsonl")
    run = ("--data-dir", "data", "--questions", questions, "--sample-size", "4", "--latency-sample", "0")
    experiment = "\n".join(
        (
            'name = "journey"',
            'data_dir = "data"',
            f"questions = {questions!r}",
            "[benchmark]",
            "sample_size = 4",
            "latency_sample = 0",
            "[systems.local]",
            "[systems.hybrid]",
        )
    )
    commands = {
        "index": ("index", str(SAMPLE / "corpus"), "--data-dir", "data", "--embedder", "all-MiniLM-L6-v2"),
        "query": ("retrieve", "how do I resume a run", "--data-dir", "data"),
        "benchmark": ("benchmark", *run, "--predictor", "local", "--predictor", "hybrid"),
        "experiment": ("run", "journey.toml"),
        "report": ("report", "reports/done"),
    }
    with checkout(commit) as before, tempfile.TemporaryDirectory() as folder:
        counts: dict[str, list[str]] = {name: [] for name in commands}
        for number, version in enumerate((before, ROOT)):
            place = Path(folder) / str(number)
            place.mkdir()
            (place / "journey.toml").write_text(experiment, encoding="utf-8")
            for name, command in commands.items():
                branchrank(version, place, *command, run=("-c", COUNTED))
                counts[name].append((place / "modules").read_text(encoding="utf-8"))
                if name == "benchmark":
                    next((place / "reports").glob("*-42")).rename(place / "reports" / "done")
    for name, (old, new) in counts.items():
        print(f"{name:12} {old:>4} -> {new:>4} modules")


def main() -> int:
    """Run the chosen comparison, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("rows", "speed", "journeys"))
    parser.add_argument("commit", help="a commit, or the folder of a checkout")
    parser.add_argument("--symfony", type=Path, help="the folder of Symfony's documentation, for rows")
    parser.add_argument("--questions", type=Path, help="questions about Symfony's documentation, for rows")
    parser.add_argument("--keep", type=Path, help="keep the files of the commit here")
    parser.add_argument("--pairs", type=int, default=10, help="number of pairs per command, for speed")
    flags = parser.parse_args()
    if flags.what == "journeys":
        count_journeys(flags.commit)
        return 0
    if flags.what == "speed":
        return int(not compare_speed(flags.commit, flags.pairs))
    corpora = {"sample": (SAMPLE / "corpus", SAMPLE / "questions.jsonl", False)}
    if flags.symfony:
        corpora["symfony"] = (flags.symfony.resolve(), flags.questions.resolve(), True)
    return int(not compare_rows(flags.commit, corpora, flags.keep))


if __name__ == "__main__":
    sys.exit(main())
