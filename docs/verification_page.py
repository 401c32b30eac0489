"""Write ``verification.md`` from ``tests/support/tamperings.py``, which lists changes to a correct run.

Run ``python docs/verification_page.py`` after you change ``tests/support/tamperings.py``. A test checks that
the page is up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))

HEAD = """\
# Verifying a run

`branchrank verify RUN` recomputes the tables, reports and plots of a run from its rows, timings and
questions, and reports each line that differs. If `branchrank verify` finds an error, it exits with code 1.
If an older version wrote a table without a new column, the other columns are compared, and a note says so.
The other commands that read a run compare only the digests, and warn of each file that has changed.

| part of the run | is compared with |
| --- | --- |
| measurement files and `run.json` | their digests in `run.json` |
| rows | the plan: every question, predictor and repeat once, in order |
| tables, reports and plots | the same files, made again in a temporary folder |
| warnings, failures, LLMs and the seal's digest in `run.json` | the plan, the rows, the questions |
| the queries in `timings.csv` | the questions that the plan's seed draws |
| gold, the judgment of each hit, quoted passages | the documents, if the corpus is available (`--corpus`) |
| the facts about indexes, embedder and corpus | the index that a rerun opens (`--rerun`) |

Without `--rerun`, `branchrank verify` can't check whether a system, a class or an endpoint really returned
the recorded hits. Somebody who changes rows and makes everything else again is found only by a rerun. Times
can't be checked again. If the run stores its questions as hashes, credits by a quote can't be checked. The
LLM that an experiment file names for a class or an endpoint is compared only with a copy of the seal.

## Run some questions again

`branchrank verify RUN --rerun 20` draws 20 questions, runs them again, and compares every hit, judgment, rank
and stage with those in the run. If possible, half of them are questions on which the leading system and its
closest rival have different scores. Each draw is new, because an author who knew the draw could alter only
other questions; `--seed` repeats a draw. The output states the chance that such a draw finds one of 5 altered
questions, wherever they are. If the two systems differ on 13 of 161 questions, a
draw of 20 finds one of 5 altered questions in {outside:.0%} of draws if all 5 are among the other 148, and in
nearly all if they are among the 13. The index must have the digest that `run.json` records.

The command never calls an LLM. With `--llm-replay FILE`, the run's cassette gives the responses; without this
flag, systems with an LLM are skipped. Predictor classes and endpoints are run, and models outside the
workspace are used, only with `--trust`. The run's workspace needs no `--trust`: its index is opened, but not
built, and nothing in it is executed. The output lists the skipped systems, which are not checked.
Differences of up to 0.0001 between scores are ignored, because the last digits of a score differ between
processors. On another processor, two hits with nearly equal scores may change places.

## Seal a plan

A run can't prove that its primary measure, baseline and questions were chosen before its results were known.
You can record your choices in a seal before the run:

```bash
branchrank benchmark --predictor all --seal plan.seal   # writes the plan to a file and stops
git add plan.seal && git commit -m "Seal the plan"      # or send it to somebody
branchrank benchmark --predictor all --seal plan.seal   # runs this plan, and refuses any other
branchrank verify RUN --seal plan.seal                  # later, with your copy of the seal
```

The seal contains the digests of the questions and the corpus, the predictors with their settings, the primary
measure, the baseline, the significance level alpha and the other settings of the benchmark. The report of the
run says that the run matches the seal. A seal alone does not prove that the plan was made before the run.
Somebody else must have a copy of the seal, and the author of the run must be unable to change this copy.

## Tested changes

Each change is a test that changes a correct run and then runs `branchrank verify`. Anyone who has BranchRank
installed can change a run and then recompute its tables, reports and digests. The column "regenerated" shows
whether the tests did so. In the example runs in `reports/examples`, made again by `branchrank report`,
`branchrank verify` finds no error.

| found by | regenerated | changes |
| --- | --- | --- |
"""

TAIL = """
A rerun finds a changed row only if it draws the row's question. The test draws all questions. Nothing finds
the changes in the last row of the table, so do not rely on these values. To check a run that may have been
fabricated, ask its author for the seal, run some of its questions again, or repeat the whole benchmark.

This page is generated by `python docs/verification_page.py`.
"""


def verification_page() -> str:
    """Return the text of ``verification.md``."""
    from support.tamperings import TAMPERINGS

    from branchrank.reports.verify.rerun import ALTERED, chance_found

    groups: dict[str, list[str]] = {}
    for each in TAMPERINGS:
        groups.setdefault(f"{each.by} | {_word(each.finished)}", []).append(each.name)
    rows = "".join(f"| {group} | {'; '.join(names)} |\n" for group, names in groups.items())
    outside = chance_found((10, 13), (10, 148), ALTERED)[0]
    return HEAD.format(outside=outside) + rows + TAIL


def _word(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    (DOCS / "verification.md").write_text(verification_page(), encoding="utf-8")
