"""The names of measures in commands and files. A name consists of a scoring mode, a measure and a cutoff.

A name without a prefix, such as ``nDCG@10`` (the name in ir-measures), means strict scoring. A prefix chooses
another scoring mode, as in ``relaxed_nDCG@10``. Commands, experiment files and the library use this module to
parse measure names.
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
    """A measure with its scoring, such as ``strict_hit@1``, ``relaxed_MRR@5`` or ``graded_nDCG@10``.

    ``name`` is the name that the user typed.
    """

    name: str
    mode: Mode
    measure: Measure

    def same(self, other: NamedMeasure) -> bool:
        """Return whether ``other`` has the same mode, definition and parameters; names may differ."""
        return (self.mode, self.measure) == (other.mode, other.measure)


def named_measure(name: str, mode: Mode = "strict") -> NamedMeasure:
    """Parse a measure's name; raises :class:`UsageError` for an unknown measure or parameter.

    The scoring is ``mode``, unless the name has a prefix (``strict_``, ``half_``, ``full_``, ``relaxed_`` or
    ``graded_``).

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
    """Parse several names, and drop repeated names. Raises the same errors as :func:`named_measure`.

    >>> [str(each.measure) for each in named_measures(["nDCG@10", "MAP", "nDCG@10"])]
    ['nDCG@10', 'AP']
    """
    return named_once(*(named_measure(name, mode) for name in names))


def named_once(*measures: NamedMeasure) -> tuple[NamedMeasure, ...]:
    """Return the measures with distinct names, in the order in which the names first occur."""
    return tuple({measure.name: measure for measure in measures}.values())


def measure_names(text: str) -> list[str]:
    """Split a comma-separated list of names, but not at commas within parentheses.

    >>> measure_names("nDCG@10, RBP(rel=2,p=0.5), AP")
    ['nDCG@10', 'RBP(rel=2,p=0.5)', 'AP']
    """
    return [name.strip() for name in re.split(r",(?![^()]*\))", text) if name.strip()]


def depth_needed(measures: Iterable[NamedMeasure]) -> int:
    """Return how many hits the measures need (their largest cutoff), or 0 if no measure has a cutoff.

    >>> depth_needed(named_measures(["nDCG@100", "RR", "R@20"]))
    100
    """
    return max((each.measure.cutoff or 0 for each in measures), default=0)
