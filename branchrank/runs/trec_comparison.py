"""Compare TREC runs from any program, with the same statistics as for BranchRank's own runs.

1. A run is scored as in trec_eval. Documents are sorted by score and then by id, both descending, and the
   rank column is ignored (:func:`~branchrank.measures.trec.run_ranking`). Means are over all judged queries.
2. In the significance tests, each query is its own cluster.
3. It is an error if a run lacks a judged query, because the run file may be truncated. With
   ``missing_is_zero``, a judged query that is missing from a run scores 0, as in ``trec_eval -c``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from branchrank.errors import RunError, UsageError
from branchrank.measures.measures import parse_measure
from branchrank.measures.power import ALPHA
from branchrank.measures.verdicts import DELTA
from branchrank.questions.qrels import Qrels
from branchrank.runs.results_table import ResultsTable, results_table
from branchrank.runs.trec_files import TrecRun, run_scores

#: The default seed for the significance tests, which is also the default seed of a benchmark.
SEED = 42


def compare_rankings(
    qrels: Qrels,
    runs: Mapping[str, TrecRun],
    measures: Iterable[str],
    *,
    title: str = "",
    baseline: str = "",
    all_pairs: bool = False,
    missing_is_zero: bool = False,
    delta: float = DELTA,
    alpha: float = ALPHA,
    seed: int = SEED,
) -> ResultsTable:
    """Score runs with qrels, and compare each run with the baseline.

    If ``all_pairs`` is true, all runs are compared with each other. Raises :class:`RunError` if a run lacks a
    judged query. Raises :class:`UsageError` if there are fewer than two runs, if a measure or the baseline is
    unknown, or if the values of a measure can be outside 0..1.
    """
    parsed = [parse_measure(name) for name in measures]
    if len(runs) < 2:
        raise UsageError(
            "there is only one run, so there is nothing to compare", remedy="branchrank score-trec RUN QRELS"
        )
    for name, run in runs.items():
        missing = [query for query in qrels if query not in run]
        if missing and not missing_is_zero:
            raise RunError(
                f"{name} has no line for {len(missing)} of {len(qrels)} judged queries "
                f"(the first: {missing[0]!r})",
                remedy="--missing-is-zero if the system found no documents, or complete the run",
            )
    return results_table(
        {name: run_scores(run, qrels, parsed) for name, run in runs.items()},
        title=", ".join(
            [*([title] if title else []), f"{len(qrels)} judged quer{'y' if len(qrels) == 1 else 'ies'}"]
        ),
        baseline=baseline,
        all_pairs=all_pairs,
        delta=delta,
        alpha=alpha,
        seed=seed,
    )


def run_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Map each run file to its name in a table.

    The name is the file name without its suffix, or the path if two runs have the same file name. Raises
    :class:`UsageError` if a path is given twice.
    """
    stems = [path.stem for path in paths]
    twice = [path for path in paths if paths.count(path) > 1]
    if twice:
        raise UsageError(f"{twice[0]} is given twice", remedy="give each run once")
    return {
        path: stem if stems.count(stem) == 1 else str(path) for path, stem in zip(paths, stems, strict=True)
    }
