"""Statistics on TREC runs from anywhere: the same tests, corrections and intervals as for a run of ours.

1. A run is scored as trec_eval does: by score, ties by document id, both descending; the rank column is not
   read (:func:`~branchrank.measures.trec.run_ranking`). Every judged query counts.
2. The unit of every test is the query.
3. A judged query that a run lacks is an error, because a file that was cut off looks like that. It scores 0
   where the caller says so, as in ``trec_eval -c``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from branchrank.errors import RunError, UsageError
from branchrank.measures.power import ALPHA
from branchrank.measures.verdicts import DELTA
from branchrank.runs.results_table import ResultsTable, results_table
from branchrank.runs.trec_files import TrecScores, score_trec


def compare_trec(
    qrels: Path,
    paths: Sequence[Path],
    measures: Iterable[str],
    *,
    baseline: str = "",
    all_pairs: bool = False,
    missing_is_zero: bool = False,
    delta: float = DELTA,
    alpha: float = ALPHA,
    seed: int = 42,
) -> ResultsTable:
    """Score run files with qrels and compare them, each with the baseline or all with each other.

    ``baseline`` is a path or the name that the table has for it: the file's name without its suffix. Raises
    :class:`RunError` for a file that can't be read or lacks a judged query, and :class:`UsageError` for
    fewer than two runs, an unknown measure or baseline, and a measure whose values can leave 0..1.
    """
    if len(paths) < 2:
        raise UsageError("there is nothing to compare: one run", remedy="branchrank score-trec RUN QRELS")
    twice = [path for path in paths if paths.count(path) > 1]
    if twice:
        raise UsageError(f"{twice[0]} is given twice", remedy="name each run once")
    scored = score_trec(paths, qrels, measures)
    if not missing_is_zero:
        for each in scored:
            _check_complete(each, qrels)
    names = _names(paths)
    by_path = {str(path): name for path, name in zip(paths, names, strict=True)}
    judged = len(next(iter(scored[0].by_query.values())))
    return results_table(
        {name: each.by_query for name, each in zip(names, scored, strict=True)},
        title=f"{qrels.name}, {judged} judged quer{'y' if judged == 1 else 'ies'}",
        baseline=by_path.get(baseline, baseline),
        all_pairs=all_pairs,
        delta=delta,
        alpha=alpha,
        seed=seed,
    )


def _check_complete(scored: TrecScores, qrels: Path) -> None:
    if scored.missing:
        judged = len(next(iter(scored.by_query.values())))
        raise RunError(
            f"{scored.path} has no line for {len(scored.missing)} of {judged} queries that {qrels} judges "
            f"(the first: {scored.missing[0]!r})",
            remedy="--missing-is-zero, if the system found nothing for them; else complete the run",
        )


def _names(paths: Sequence[Path]) -> list[str]:
    """The files' names without suffixes; whole paths where two are the same."""
    stems = [path.stem for path in paths]
    return [stem if stems.count(stem) == 1 else str(path) for path, stem in zip(paths, stems, strict=True)]
