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

BranchRank and another library take turns doing the same work in one process, in several rounds. The ratio
of a round is the other library's time divided by BranchRank's, so a ratio above 1 means that BranchRank
is faster. The table shows the median of these ratios with its distribution-free 95% interval (of five
rounds, the smallest to the largest). Other running programs affect the ratios much less than the times.

- **Embedding**: `SentenceTransformer.encode` with its defaults (batches of 32). CodeRankEmbed has random
  weights, because the time does not depend on them.
- **BM25**: every program counts the same tokens with the same constants.
- **Vector search**: Chroma with its default settings, and BranchRank's store, which requests more
  candidates from Chroma and sorts them by exact scores.
- **The system `local`**: the frameworks also combine BM25 and vector search with reciprocal rank fusion
  over the same chunks and vectors; the questions are embedded in advance. BranchRank's defaults were
  tuned on these questions, so the hit rates don't show which system is better.
- **Processes**: the CPU time of a whole process with a new question.

"""

TAIL = """
`make bench-check` repeats the measurements, and fails if the whole interval of a new ratio is more than
20% below the ratio in this table.
"""


def page(table: Table) -> str:
    """Return the page as Markdown."""
    return f"{HEAD}{markdown(table)}{TAIL}"
