"""Writes ``verification.md`` from the list of tamperings that the tests try.

Run ``python docs/verification_page.py`` after a change of ``tests/support/tamperings.py``; a test compares
the page with what this makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))

HEAD = """\
# Verifying a run

`branchrank verify RUN` makes everything again from the rows, the timings and the questions: judgements,
tables, reports, plots. It names each number that differs. It also looks for what the run itself
contradicts, and exits with 1 if it finds anything.

| compared | with |
| --- | --- |
| the stages of an answer | those of the system's own record |
| a hit's id, section and lines | each other, and the same hit in other rows |
| scores and ranks in the branches | each other; where ranks are fused, the scores they give |
| the gold's ranks | the hits, and the stages before |
| the number of hits and LLM calls | what the system always has |
| the queries that were timed | those that the seed draws; each whole with its stages |
| what `run.json` counts | the rows |
| gold, hits and quoted passages | the documents, if the corpus is available (`--corpus`) |

What a class or an endpoint of yours returns is taken as it is, since nothing says what it should be.

## Ask again

`branchrank verify RUN --rerun 20` draws 20 questions by the run's seed, asks them again and compares
every hit, rank and stage. The index must have the digest that the run recorded. All hits of the run are
looked up in that index as well. No LLM is asked: `--llm-replay FILE` names the cassette of the run, and
without it systems that ask an LLM are left out, as are classes (`--predictor module:Class`) and endpoints
(`--api-endpoint`) that the command does not name. The report of the command says which. Scores may differ
by 0.0001, as they do between processors; on another processor, two hits that are nearly equal may change
places.

## Seal a plan

Nothing in a run can show that its primary measure, its baseline or its questions were chosen before its
results were known. A seal can help:

```bash
branchrank benchmark --predictor all --seal plan.seal   # writes the plan down and stops
git add plan.seal && git commit -m "Seal the plan"      # or send it to somebody
branchrank benchmark --predictor all --seal plan.seal   # runs it, and refuses any other plan
branchrank verify RUN --seal plan.seal                  # later, with the copy that was kept
```

The file holds the questions' digest, the corpus's, the predictors, their settings, the primary measure,
the baseline, alpha and the other settings of the benchmark. The report says that the run matches it. Only
a copy outside of the reach of whoever makes the run proves when it was made.

## What is found

Each line is a test that starts from a run which verifies clean. "Finished again": tables, reports and
digests were made again after the change, as somebody would who has this package. "0.1.0": whether the
first version of `verify` found it. All example runs in `reports/examples` verify clean.

| change | finished again | 0.1.0 | found by |
| --- | --- | --- | --- |
"""

TAIL = """
The last lines are beyond any tool that has the run alone: a run that was made up whole, with times that
nobody measured, contradicts nothing. To check such a run, ask its author for the seal, answer a sample of its
questions again (`branchrank verify RUN --rerun 20`), or repeat the whole benchmark.

This page is made by `python docs/verification_page.py`.
"""


def verification_page() -> str:
    """The whole page."""
    from support.tamperings import TAMPERINGS

    rows = "".join(
        f"| {each.name} | {_word(each.finished)} | {_word(each.before)} | {each.by} |\n"
        for each in TAMPERINGS
    )
    missed = sum(not each.before for each in TAMPERINGS)
    alone = sum(each.by == "`verify`" for each in TAMPERINGS)
    left = sum(each.by == "nothing" for each in TAMPERINGS)
    count = (
        f"\nOf {len(TAMPERINGS)} changes, version 0.1.0 missed {missed}. Now `verify` alone finds {alone}, "
        f"and {left} is not found.\n"
    )
    return HEAD + rows + count + TAIL


def _word(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    (DOCS / "verification.md").write_text(verification_page(), encoding="utf-8")
