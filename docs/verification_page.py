"""Write ``verification.md`` from the list of tamperings (changes to a correct run) that the tests try.

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

`branchrank verify RUN` recomputes the judgements, tables, reports and plots of a run from its rows, timings
and questions, and reports each number that differs. `branchrank verify` also reports contradictions within
the run. If `branchrank verify` finds an error, it exits with code 1.

| part of the run | is compared with |
| --- | --- |
| the stages of an answer | the stages in the record of the system |
| a hit's id, section and lines | each other, and the same hit in other rows |
| scores and ranks in the branches | each other, and the fused scores that follow from the ranks |
| the gold's ranks | the hits, and the earlier stages |
| the number of hits and LLM calls | the numbers that the system must have |
| the timed queries | the queries that the seed selects; the total time of a query with its stages |
| the counts in `run.json` | the rows |
| gold, hits and quoted passages | the documents, if the corpus is available (`--corpus`) |

`branchrank verify` can't check whether your own predictor class or endpoint really returned the recorded
hits, because it does not know their correct values.

## Run some questions again

`branchrank verify RUN --rerun 20` selects 20 questions with the run's seed, runs them again, and compares
every hit, rank and stage with those in the run. The digest of the index must be the one in `run.json`.
`branchrank verify --rerun` also checks that all hits of the run exist in this index. The command never calls
an LLM. With `--llm-replay FILE`, the LLM calls are answered by the cassette of the run; without this flag,
systems with an LLM are skipped. Predictor classes and endpoints are skipped unless you pass them with
`--predictor module:Class` and `--api-endpoint`. The output lists the skipped systems. Differences of up to
0.0001 between scores are ignored, because the last digits of a score differ between processors. On another
processor, two hits with nearly equal scores may change places.

## Seal a plan

A run can't prove that its primary measure, baseline and questions were chosen before its results were known.
You can record your choices in a seal before the run:

```bash
branchrank benchmark --predictor all --seal plan.seal   # writes the plan to a file and stops
git add plan.seal && git commit -m "Seal the plan"      # or send it to somebody
branchrank benchmark --predictor all --seal plan.seal   # runs this plan, and refuses any other
branchrank verify RUN --seal plan.seal                  # later, with your copy of the seal
```

The seal contains the digests of the questions and the corpus, the predictors with their settings, the
primary measure, the baseline, the significance level alpha and the other settings of the benchmark. The
report of the run states that the run matches the seal. A seal proves that the plan was made before the run
only if somebody else has a copy of the seal that the author of the run can't change.

## Tested changes

Each row of the table is a test that changes a correct run and then runs `branchrank verify`. The column
"regenerated" shows whether the test recomputed the tables, reports and digests after it changed the run.
Anybody with this package can recompute them. The column "0.1.0" shows whether the first version of `verify`
found the change in that row. In the unchanged example runs in `reports/examples`, `branchrank verify` finds
no error.

| change | regenerated | 0.1.0 | found by |
| --- | --- | --- | --- |
"""

TAIL = """
The changes in the last rows of the table can't be detected from the run alone, because invented rows and
times need not contradict each other. To check a run that may have been fabricated, ask its author for the
seal, run some of its questions again (`branchrank verify RUN --rerun 20`), or repeat the whole benchmark.

`python docs/verification_page.py` generates this page.
"""


def verification_page() -> str:
    """Return the text of ``verification.md``."""
    from support.tamperings import TAMPERINGS

    rows = "".join(
        f"| {each.name} | {_word(each.finished)} | {_word(each.before)} | {each.by} |\n"
        for each in TAMPERINGS
    )
    missed = sum(not each.before for each in TAMPERINGS)
    alone = sum(each.by == "`verify`" for each in TAMPERINGS)
    left = sum(each.by == "nothing" for each in TAMPERINGS)
    others = len(TAMPERINGS) - alone - left
    count = (
        f"\nThe first version of `verify` (0.1.0) missed {missed} of these {len(TAMPERINGS)} changes. From "
        f"the run alone, the current version finds {alone} of the changes. To find {others} more changes, "
        f"`verify` needs the corpus, the index or a copy of the seal. The number of changes that `verify` "
        f"never detects is {left}.\n"
    )
    return HEAD + rows + count + TAIL


def _word(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    (DOCS / "verification.md").write_text(verification_page(), encoding="utf-8")
