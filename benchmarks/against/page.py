"""Write ``docs/results/speed.md`` from a table."""

from __future__ import annotations

from benchmarks.against.table import Table, markdown
from benchmarks.against.world import ROOT

PAGE = ROOT / "docs" / "results" / "speed.md"

HEAD = """\
# Speed compared with other libraries

```console
$ make bench WRITE=--write
```

For each row of the table, BranchRank and another library take turns doing the same work in one process, in
several rounds. The ratio of a round is the other library's time divided by BranchRank's time, so a ratio
above 1 means that BranchRank is faster. The table shows the median of these ratios and the median's 95%
confidence interval. The interval is distribution-free: each of its bounds is one of the measured ratios. With
five rounds, the interval runs from the smallest to the largest ratio. The machine and other running programs
affect the ratios much less than the times.

- **Embedding**: `SentenceTransformer.encode` with its defaults (batches of 32). CodeRankEmbed has the
  published configuration and random weights, because the time does not depend on the values of the weights.
- **Lexical query**: every program counts the same tokens with the same constants.
- **Vector search**: the 40 chunks nearest to each question. Chroma is measured with its default settings and
  through BranchRank's store, which requests more candidates from Chroma and sorts them by exact scores.
- **Measures**: ten measures of 1,000 questions with 1,000 results each.
- **Whole benchmark**: both frameworks combine BM25 and vector search with reciprocal rank fusion, and use the
  same chunks, vectors and questions as BranchRank. The vectors of the questions are computed in advance, so
  the embedding model is not timed. BranchRank's defaults were tuned on these questions, so the hit rates
  don't show which system is better.
- **Cold start**: the CPU time of a whole process. Each question is new, so its vector is computed.

"""

TAIL = """
`make bench-check` repeats the measurements. The check fails only if the whole interval of a new ratio is more
than 20% below the ratio in this table, so random variation alone is unlikely to make the check fail.
"""


def page(table: Table) -> str:
    """Return the page as Markdown."""
    return f"{HEAD}{markdown(table)}{TAIL}"
