"""Write ``docs/results/speed.md`` from a table."""

from __future__ import annotations

from benchmarks.against.table import Table, markdown
from benchmarks.against.world import ROOT

PAGE = ROOT / "docs" / "results" / "speed.md"

HEAD = """\
# Speed beside other libraries

```console
$ make bench WRITE=--write
```

Each row times BranchRank and another library on the same work, alternately, in one process. The ratio is
the median, over the rounds, of the other's time over BranchRank's: above 1, BranchRank is quicker. The
interval is a 95% interval for it, from order statistics; with five rounds, it is the smallest and the
largest. Times depend on the machine and its load, ratios much less, which is why they are compared.

- **Embedding**: `SentenceTransformer.encode` with its defaults (batches of 32). CodeRankEmbed has the
  published configuration and random weights, because time does not depend on their values.
- **Lexical query**: every program counts the same tokens with the same constants.
- **Vector search**: the vectors of all chunks, first 40 of each question. Chroma is used with its own
  defaults, and through BranchRank's store, which asks it for more candidates and orders them by exact scores.
- **Measures**: ten measures of 1,000 questions with 1,000 results each.
- **Whole benchmark**: both frameworks fuse BM25 and vectors by reciprocal ranks, with the same chunks,
  vectors and questions. The vectors of the questions are looked up, so the model is not timed.
- **Cold start**: CPU time of a whole process; each question is new, so its vector is computed.

"""

TAIL = """
`make bench-check` measures again and fails if a ratio is more than 20% worse than in this table. It does so
only if the whole interval is, so that noise alone does not fail it.
"""


def page(table: Table) -> str:
    """Return the page as Markdown."""
    return f"{HEAD}{markdown(table)}{TAIL}"
