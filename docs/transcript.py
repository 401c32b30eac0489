"""Write ``transcript.md``, the results in the README and the pictures in ``images``, all of one run.

    python docs/transcript.py

This takes a few minutes, 2 GB of disk space in a temporary folder, and ``chromium``.

1. Build a wheel from the last commit and install it into an empty virtual environment.
2. Run ``branchrank demo``.
3. Run ``branchrank init`` on a folder of documents (a copy of this documentation).
4. Write five questions with ``branchrank questions add``, and delete the three example questions.
5. Run ``branchrank run``, whose output starts with the verdict.
6. Write the results of the demo to the README, and take the pictures of the demo.

The transcript contains the commands, their output, and how long each step takes (in seconds).
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from branchrank import Run
from branchrank.runs.words import milliseconds

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "transcript.md"
README = ROOT / "README.md"
#: The place of the results in the README.
MARK = "<!-- result -->\n"
DEMO = "run the demo"
#: Each question with its document and the first words of the paragraph that answers it.
QUESTIONS = (
    ("what does it cost to install", "installation.md", "| everything |"),
    ("my run was killed, how do I continue", "reproducibility.md", "If a run is stopped"),
    ("which ids does an exported TREC run have", "exchange.md", "Each line of a run file has the form"),
    ("where do I see why a question failed", "tutorial.md", "Open `questions.csv`"),
    (
        "how do I pick between the systems in a hurry",
        "which-system.md",
        "| no LLM, and an embedding model that",
    ),
)
#: Deletes the example questions that ``branchrank init`` wrote.
DROP = """grep -v '"id":"example-' questions.jsonl > own.jsonl && mv own.jsonl questions.jsonl"""
LINES_SHOWN = 26
HEAD = """\
# From installation to a verdict, with times

This page shows every command from an empty virtual environment to a verdict on five questions of your own.
`python docs/transcript.py` ran the commands on {date} with {system}, Python {python}, {cores} CPU cores and
a load average of {load} at the start. The installation time includes the download.

| step | seconds |
| --- | --- |
{rows}
| all steps | {total:.0f} |
| all steps except the environment and the installation | {own:.0f} |

The installation increased the size of the environment from {before:.0f} MB to {after:.0f} MB;
[Installation](installation.md#disk-space-of-the-packages) lists the size of each package. The documents are
the pages of this documentation, without this page and the pictures.
"""


RESULT = """\
`make demo` prints these results for the bundled sample, without an LLM. Hit rates are shares of the
{answerable} questions that have an answer (of {asked}). The picture, the table and the
[transcript](docs/transcript.md) are of one run ({date}, {cores} CPU cores).

| predictor | {headings} | lines per hit | p50 / p95 ms |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

{verdict}

`--fusion score` gives local-score and hybrid-score. See also [an example
report](reports/examples/sample/report.md) and [results on real
documentation](docs/results/documentation-sets.md).
"""
#: The hit rates in the README's table.
RATES = ("strict_hit@1", "strict_hit@5", "relaxed_hit@1", "relaxed_hit@5")


@dataclass(frozen=True)
class Step:
    """A finished command: its title, command line, duration in seconds, and output."""

    title: str
    command: str
    seconds: float
    output: str


class Recorder:
    """Run commands in ``folder``, with the environment's ``bin`` first in ``PATH``, and record them."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self.folder, self.steps = folder, list[Step]()
        self.variables = {**os.environ, "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        self.variables |= {"HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            self.variables.pop(name, None)

    def run(self, title: str, *words: str | Path, shown: str = "") -> None:
        """Run a command and record how long it takes. If the command fails, print its output and exit."""
        started = time.perf_counter()
        done = subprocess.run(
            [*map(str, words)],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{shlex.join(map(str, words))} failed:\n{done.stdout}")
        seconds = time.perf_counter() - started
        self.steps.append(Step(title, shown or shlex.join(map(str, words)), seconds, done.stdout))


def megabytes(folder: Path) -> float:
    """Return the total size in MB of the files in a folder, excluding symbolic links."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def build_wheel(folder: Path, pip: Path) -> Path:
    """Build a wheel from the clone of the last commit in ``folder``, and return its path."""
    words = [pip, "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", folder]
    subprocess.run([*words, folder / "clone"], check=True)
    [wheel] = folder.glob("branchrank-*.whl")
    return wheel


def lines_of(path: Path, beginning: str) -> str:
    """Return the lines (such as ``5-8``) of the paragraph or table row that starts with ``beginning``."""
    lines = path.read_text(encoding="utf-8").splitlines()
    [start] = [number for number, line in enumerate(lines, 1) if line.startswith(beginning)]
    end = start
    while not beginning.startswith("|") and end < len(lines) and lines[end].strip():
        end += 1
    return f"{start}-{end}"


def ten_minutes(folder: Path) -> tuple[list[Step], float, float]:
    """Run all steps, and return them with the environment's size in MB before and after the installation."""
    environment, here = folder / "venv", folder / "here"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "clone"], check=True)  # noqa: S607
    shutil.copytree(folder / "clone" / "docs", here / "docs", ignore=shutil.ignore_patterns("*.py", "images"))
    (here / "docs" / PAGE.name).unlink(missing_ok=True)
    record = Recorder(here, environment)
    record.run(
        "create an empty environment", sys.executable, "-m", "venv", environment, shown="python -m venv venv"
    )
    before = megabytes(environment)
    wheel = build_wheel(folder, environment / "bin" / "pip")
    install = ("pip", "install", "-qq", "--disable-pip-version-check")
    pins = ROOT / "constraints.txt"
    record.run("install the wheel", *install, "-c", pins, wheel, shown=f"pip install {wheel.name}")
    after = megabytes(environment)
    record.run(DEMO, "branchrank", "demo", "--quiet")
    record.run("start with your own folder", "branchrank", "init", "docs")
    for place, (question, source, beginning) in enumerate(QUESTIONS, 1):
        where = ("--source", source, "--lines", lines_of(here / "docs" / source, beginning))
        add = ("branchrank", "questions", "add", "questions.jsonl", "--question", question, *where)
        record.run(f"question {place}", *add)
    record.run("delete the example questions", "sh", "-c", DROP, shown=DROP)
    record.run("build the index and compare the systems", "branchrank", "run", "experiment.toml", "--quiet")
    return record.steps, before, after


def results(run: Run, output: str) -> str:
    """Return the results of the demo's ``run`` for the README. ``output`` is what the demo printed."""
    rows = []
    for each in run.summary.to_dict("records"):
        times = " / ".join(milliseconds(each[f"latency_{name}_ms"]) for name in ("p50", "p95"))
        shares = (f"{each[name]:.1%}" for name in RATES)
        cells = (each["predictor"], *shares, f"{each['lines_per_hit']:.1f}", times)
        rows.append(f"| {' | '.join(cells)} |")
    verdict = output.partition("\n\n")[2].partition("\n\n")[0]
    return RESULT.format(
        answerable=sum(question.answerable for question in run.asked),
        asked=len(run.asked),
        headings=" | ".join(name.replace("_", " ") for name in RATES),
        date=time.strftime("%Y-%m-%d"),
        cores=os.cpu_count(),
        rows="\n".join(rows),
        verdict="\n>\n".join(f"> {line}" for line in verdict.splitlines()),
    )


def page(steps: list[Step], before: float, after: float, load: str) -> str:
    """Return the text of ``transcript.md``."""
    head = HEAD.format(
        date=time.strftime("%Y-%m-%d"),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        cores=os.cpu_count(),
        load=load,
        rows="\n".join(f"| {each.title} | {each.seconds:.1f} |" for each in steps),
        total=sum(each.seconds for each in steps),
        own=sum(each.seconds for each in steps[2:]),
        before=before,
        after=after,
    )
    return "\n".join([head, "## Commands and output", "", *map(_block, steps)])


def _block(step: Step) -> str:
    lines = [line.rstrip() for line in step.output.strip().splitlines()]
    if len(lines) > LINES_SHOWN:
        lines = [*lines[:LINES_SHOWN], f"... {len(lines) - LINES_SHOWN} more lines"]
    return "\n".join(["```text", f"$ {step.command}", *lines, "```", ""])


def main() -> None:
    from screenshots import pictures

    load = f"{os.getloadavg()[0]:.1f}"
    with tempfile.TemporaryDirectory() as name:
        steps, before, after = ten_minutes(Path(name))
        PAGE.write_text(page(steps, before, after, load), encoding="utf-8")
        demo = Path(name) / "here" / "branchrank-demo"
        [run] = (demo / "reports").iterdir()
        [output] = [step.output for step in steps if step.title == DEMO]
        start, _, end = README.read_text(encoding="utf-8").split(MARK)
        README.write_text(MARK.join([start, results(Run.load(run), output), end]), encoding="utf-8")
        pictures(demo)
    print(f"written: {PAGE}, {README}, and the pictures")


if __name__ == "__main__":
    main()
