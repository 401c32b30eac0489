"""Compare how fast BranchRank, ir-measures and ranx score a run made by ``benchmarks/scoring.py``."""

from __future__ import annotations

import warnings
from functools import partial

from benchmarks import scoring
from benchmarks.against.pairs import Pair, Source
from benchmarks.against.world import World, missing, named

GROUP = "measures"
QUESTIONS = RESULTS = 1000


def pairs(world: World) -> Source:
    """Yield one comparison per program. The program's averages must equal BranchRank's to four decimals."""
    run, qrels = scoring.made(QUESTIONS, RESULTS)
    ours = scoring.branchrank(run, qrels)
    for package, work in (("ir-measures", scoring.ir_measures), ("ranx", scoring.ranx)):
        if absent := missing(GROUP, package):
            yield absent
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numba warns while it compiles ranx
            theirs = work(run, qrels)
        wrong = [name for name in scoring.MEASURES if abs(ours[name] - theirs[name]) >= 5e-5]
        assert not wrong, f"{package} differs in {wrong}"
        yield Pair(
            GROUP,
            f"{len(scoring.MEASURES)} measures of {RESULTS} results",
            named(package),
            partial(scoring.branchrank, run, qrels),
            partial(work, run, qrels),
            QUESTIONS,
            "question",
            "the same averages, to four decimals",
        )
