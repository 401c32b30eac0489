"""Compare how long BranchRank, ir-measures and ranx take to score 1,000 questions with 1,000 results each.

    pip install ranx      # optional; the table includes ranx only if ranx is installed
    python benchmarks/scoring.py

1. Ten measures are computed. The run and the judgments are sampled with a fixed seed. The run has 1,000
   documents per question, and 20 documents per question are judged.
2. Each program gets the data in memory. The time to convert the data into the program's input format is
   included, because every caller needs this conversion.
3. Before the measurement, each program's averages are compared with BranchRank's to four decimals.
4. The reported wall time is that of the fastest of three rounds, because other programs can only make a round
   slower.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import time
from collections.abc import Callable, Mapping

from branchrank.scoring.matching import run_ranking
from branchrank.scoring.measures import mean, parse_measure, score

MEASURES = (
    "Success@1",
    "Success@5",
    "Success(rel=2)@1",
    "RR",
    "RR@10",
    "nDCG@10",
    "nDCG@100",
    "AP",
    "P@10",
    "R@100",
)
#: Maps each measure to the measure in ranx with the same definition (ranx's "ndcg" has linear gains).
RANX = {
    "Success@1": "hit_rate@1",
    "Success@5": "hit_rate@5",
    "Success(rel=2)@1": "hit_rate@1-l2",
    "RR": "mrr",
    "RR@10": "mrr@10",
    "nDCG@10": "ndcg@10",
    "nDCG@100": "ndcg@100",
    "AP": "map",
    "P@10": "precision@10",
    "R@100": "recall@100",
}
JUDGED = 20
ROUNDS = 3

Run = Mapping[str, Mapping[str, float]]
Qrels = Mapping[str, Mapping[str, int]]


def made(questions: int, results: int) -> tuple[Run, Qrels]:
    """Return a run without equal scores, and judgments of ``JUDGED`` documents per question.

    Five judged documents per question are not in the run.
    """
    draw = random.Random(7)
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for number in range(questions):
        documents = draw.sample(range(10 * results), results)
        run[f"q{number}"] = {f"d{document}": float(results - rank) for rank, document in enumerate(documents)}
        judged = draw.sample(documents, JUDGED - 5) + draw.sample(range(10 * results, 11 * results), 5)
        qrels[f"q{number}"] = {f"d{document}": draw.randint(1, 2) for document in judged}
    return run, qrels


def branchrank(run: Run, qrels: Qrels) -> dict[str, float]:
    """Return the averages of the measures, computed by BranchRank."""
    rankings = {question: run_ranking(found, qrels[question]) for question, found in run.items()}
    return {name: mean(score(parse_measure(name), rankings, qrels).values()) for name in MEASURES}


def ir_measures(run: Run, qrels: Qrels) -> dict[str, float]:
    """Return the averages of the measures, computed by ir-measures."""
    import ir_measures

    parsed = {name: ir_measures.parse_measure(name) for name in MEASURES}
    found = ir_measures.calc_aggregate(list(parsed.values()), qrels, run)
    return {name: float(found[measure]) for name, measure in parsed.items()}


def ranx(run: Run, qrels: Qrels) -> dict[str, float]:
    """Return the averages of the measures, computed by ranx."""
    from ranx import Qrels as RanxQrels
    from ranx import Run as RanxRun
    from ranx import evaluate

    found = evaluate(RanxQrels(dict(qrels)), RanxRun(dict(run)), list(RANX.values()))
    return {name: float(found[theirs]) for name, theirs in RANX.items()}


def timed(work: Callable[[Run, Qrels], dict[str, float]], run: Run, qrels: Qrels) -> float:
    """Return the time of the fastest round in seconds."""
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work(run, qrels)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--results", type=int, default=1000)
    options = parser.parse_args()
    run, qrels = made(options.questions, options.results)
    programs: dict[str, Callable[[Run, Qrels], dict[str, float]]] = {
        "BranchRank": branchrank,
        "ir-measures": ir_measures,
    }
    if importlib.util.find_spec("ranx"):
        programs["ranx"] = ranx
    values = {name: work(run, qrels) for name, work in programs.items()}
    for name in MEASURES:
        for program, found in values.items():
            if abs(found[name] - values["BranchRank"][name]) >= 5e-5:
                print(
                    f"{program} differs: {name} is {found[name]:.4f}, {values['BranchRank'][name]:.4f} here"
                )
    print(f"{options.questions} questions x {options.results} results x {len(MEASURES)} measures")
    print("\n| program | s |\n| --- | --- |")
    for program, work in programs.items():
        print(f"| {program} | {timed(work, run, qrels):.2f} |")


if __name__ == "__main__":
    main()
