"""Measure how long the local page takes to open many runs and a large run.

1. Two runs of ``--questions`` questions and ``--systems`` systems are created with predictors that need no
   index. The directory of the first is copied until there are ``--runs`` runs.
2. In each round, a new `branchrank view` and a new headless Chromium open the list of runs, the questions of
   one run, the questions of two runs, the labels of one run, and the verdicts on two runs. The times are
   those from the start of the navigation until the page shows all of its content, and also include the
   reading of the files.
3. The time to open a question and the time to change a filter are measured in the page.

    python benchmarks/local_page.py [--runs 50] [--questions 2000] [--systems 8] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.chromium import Chromium
from support.local_page import READY
from support.made_runs import Planned, make_corpus, make_questions, make_run

from branchrank.questions.question_files import write_questions
from branchrank.runs.directory import RUN_JSON

SHOWN = "performance.getEntriesByName('shown')[0].startTime"
TIMED = """(async () => {
  const start = performance.now();
  %s
  while (!(%s)) await new Promise((done) => setTimeout(done, 1));
  return performance.now() - start;
})()"""
FILTERED = TIMED % (
    "const before = document.getElementById('count').textContent; "
    "const field = document.querySelector('[name=outcome]'); field.value = 'disagree'; "
    "field.dispatchEvent(new Event('input', { bubbles: true }));",
    "document.getElementById('count').textContent !== before",
)
OPENED = TIMED % (
    "document.querySelector('.question').open = true;",
    "document.querySelector('.question .answer')",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("runs", 50), ("questions", 2000), ("systems", 8), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = make_runs(folder, arguments.runs, arguments.questions, arguments.systems)
        times: dict[str, list[float]] = {}
        for number in range(arguments.rounds):
            for what, taken in one_round(folder, keys, folder / f"profile-{number}").items():
                times.setdefault(what, []).append(taken)
    for what, taken_ms in times.items():
        print(f"{what}: median {median(taken_ms):.0f} ms, slowest {max(taken_ms):.0f} ms of {len(taken_ms)}")


def make_runs(folder: Path, runs: int, questions: int, systems: int) -> list[str]:
    """Create the runs and a workspace, and return the names of the runs."""
    make_corpus(folder / "docs", questions // 10, text="a line of text about as long as one of documentation")
    asked = make_questions(questions, per_page=10)
    for more in (0.0, 0.02):
        arms = [Planned(f"system-{number}", 0.3 + number / 20 + more) for number in range(systems)]
        made = make_run(folder, arms, asked, latency_sample=60).directory
    for number in range(2, runs):
        shutil.copytree(made, made.with_name(f"run-{number:03}"), copy_function=os.link)
        record = made.with_name(f"run-{number:03}") / RUN_JSON
        text = record.read_text().replace(
            "2026-01-01T00:00:00", f"2026-02-01T{number // 60:02}:{number % 60:02}:00"
        )
        record.unlink()  # the other files are shared
        record.write_text(text)
    data = folder / "data"
    data.mkdir()
    (data / "branchrank.toml").write_text('corpus = "../docs"\nquestions = "questions.jsonl"\n')
    write_questions(data / "questions.jsonl", asked)
    rows = (made / "rows.jsonl").stat().st_size / 1e6
    print(f"{runs} runs of {questions} questions x {systems} systems, rows.jsonl {rows:.0f} MB each")
    return sorted(path.name for path in made.parent.iterdir())


def one_round(folder: Path, keys: list[str], profile: Path) -> dict[str, float]:
    """Return the times of one server and one browser, in ms."""
    words = ["view", str(folder / "reports"), "--data-dir", str(folder / "data"), "--port", "0", "--no-open"]
    command = [sys.executable, "-m", "branchrank", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = server.stderr.readline().split()[-1].partition("/#")[0]
        browser = Chromium(profile)
        browser.look(1200)
        times: dict[str, float] = {}
        try:
            for what, path in (
                ("list of runs", "/"),
                ("questions of a run", f"/questions?run={keys[-1]}"),
                ("questions of two runs", f"/questions?run={keys[-1]}&against={keys[0]}"),
                ("labels of a run", f"/label?run={keys[-1]}"),
                ("verdicts on two runs", f"/compare?run={keys[-1]}&against={keys[0]}"),
            ):
                browser.visit(url + path)
                browser.wait(READY)
                times[what] = browser.run(SHOWN)
                if what == "questions of a run":
                    times["change a filter"] = browser.run(FILTERED)
                    times["open a question"] = browser.run(OPENED)
        finally:
            browser.close()
            server.terminate()
        return times


if __name__ == "__main__":
    main()
