"""Names of measures as a person types them: scoring, measure and cutoff.

A name of ir-measures (``nDCG@10``) is scored on the strict gold; a prefix names another scoring
(``relaxed_nDCG@10``). Commands, experiment files and the library all read names here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

from branchrank.measures.matching import Mode
from branchrank.measures.measures import Measure, parse_measure
from branchrank.records import Record

MODES: tuple[Mode, ...] = get_args(Mode)


class NamedMeasure(Record, frozen=True, kw_only=True):
    """A measure under one scoring: ``strict_hit@1``, ``relaxed_MRR@5``, ``graded_nDCG@10``, ``Success@1``.

    ``name`` is as it was typed.
    """

    name: str
    mode: Mode
    measure: Measure

    def same(self, other: NamedMeasure) -> bool:
        """Return whether the other measure gives the same values, even under another name."""
        return (self.mode, self.measure) == (other.mode, other.measure)


def named_measure(name: str, mode: Mode = "strict") -> NamedMeasure:
    """Read a measure's name. Raises :class:`UsageError`.

    A name of ir-measures is scored on the gold of ``mode``; a prefix says otherwise: ``strict_``, ``half_``,
    ``full_``, ``relaxed_`` or ``graded_``.

    >>> named_measure("nDCG@10").mode, named_measure("relaxed_MRR@5").mode
    ('strict', 'relaxed')
    """
    name = name.strip()
    for each in MODES:
        if name.startswith(f"{each}_"):
            measure = parse_measure(name.removeprefix(f"{each}_"), f"{each}_")
            return NamedMeasure(name=name, mode=each, measure=measure)
    return NamedMeasure(name=name, mode=mode, measure=parse_measure(name))


def named_measures(names: Iterable[str], mode: Mode = "strict") -> tuple[NamedMeasure, ...]:
    """Read several names; each name once, in order. Raises :class:`UsageError`.

    >>> [str(each.measure) for each in named_measures(["nDCG@10", "MAP", "nDCG@10"])]
    ['nDCG@10', 'AP']
    """
    return named_once(*(named_measure(name, mode) for name in names))


def named_once(*measures: NamedMeasure) -> tuple[NamedMeasure, ...]:
    """Return the measures without repeated names."""
    return tuple({measure.name: measure for measure in measures}.values())


def measure_names(text: str) -> list[str]:
    """Split a comma-separated list of names; commas within parentheses belong to a name.

    >>> measure_names("nDCG@10, RBP(rel=2,p=0.5), AP")
    ['nDCG@10', 'RBP(rel=2,p=0.5)', 'AP']
    """
    return [name.strip() for name in re.split(r",(?![^()]*\))", text) if name.strip()]


def depth_needed(measures: Iterable[NamedMeasure]) -> int:
    """Return the largest cutoff, that is, how many hits the measures read; 0 if none has a cutoff.

    >>> depth_needed(named_measures(["nDCG@100", "RR", "R@20"]))
    100
    """
    return max((each.measure.cutoff or 0 for each in measures), default=0)
