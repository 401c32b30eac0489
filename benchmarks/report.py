"""Measure the time to write a large report and to open it in a browser.

1. A run of ``--questions`` questions and ``--systems`` systems is created with predictors that need no index.
2. The report is written and verified. The script prints how long each of these steps took, and the size of
   ``report.html``.
3. In each round, a new headless Chromium opens ``report.html``. The page load time is read from the browser's
   performance timer. After the page is loaded, the script also measures how long it takes to change a filter
   and to open a question.

    python benchmarks/report.py [--questions 1000] [--systems 6] [--rounds 5]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.chromium import Chromium
from support.made_runs import Planned, make_corpus, make_questions, make_run

from branchrank.reports.verify import verify_run
from branchrank.reports.writing import write_report

LOADED = "performance.timing.domComplete - performance.timing.navigationStart"
FILTERED = """(() => {
  const start = performance.now();
  const field = document.querySelector('[name=outcome]');
  field.value = 'disagree';
  field.dispatchEvent(new Event('input', { bubbles: true }));
  document.body.getBoundingClientRect();
  return performance.now() - start;
})()"""
OPENED = """(async () => {
  const start = performance.now();
  const details = document.querySelector('.question');
  details.open = true;
  await new Promise((done) => details.addEventListener('toggle', done, { once: true }));
  document.body.getBoundingClientRect();
  return performance.now() - start;
})()"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--systems", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = make_report(Path(folder), arguments.questions, arguments.systems)
        open_report(made, Path(folder), arguments.rounds)


def make_report(folder: Path, questions: int, systems: int) -> Path:
    """Create the run, write its report, and return the path of ``report.html``."""
    make_corpus(
        folder / "docs",
        questions // 2,
        text="a line of text about as long as a line of documentation, number",
    )
    arms = [Planned(f"system-{number}", 0.5 + number / 20) for number in range(systems)]
    loaded = make_run(folder, arms, make_questions(questions, per_page=2), latency_sample=60)
    directory = loaded.directory
    for what, action in (
        ("write", lambda: write_report(loaded)),
        ("verify", lambda: verify_run(directory)),
    ):
        start = time.perf_counter()
        action()
        print(f"{what}: {time.perf_counter() - start:.1f} s")
    page = directory / "report.html"
    print(f"report.html: {page.stat().st_size / 1e6:.1f} MB")
    return page


def open_report(page: Path, folder: Path, rounds: int) -> None:
    """Open the report in a browser and print the median times."""
    times: dict[str, list[float]] = {"open": [], "filter": [], "question": []}
    for number in range(rounds):
        browser = Chromium(folder / f"profile-{number}")
        try:
            browser.look(1200)
            browser.open(page)
            for name, script in zip(times, (LOADED, FILTERED, OPENED), strict=True):
                times[name].append(browser.run(script))
        finally:
            browser.close()
    for name, taken in times.items():
        print(f"{name}: median {median(taken):.0f} ms, slowest {max(taken):.0f} ms of {rounds}")


if __name__ == "__main__":
    main()
