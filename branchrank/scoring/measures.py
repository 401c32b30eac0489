"""Measures for ranked lists. Each measure has a definition with a name and a function.

Names and values agree with ir-measures and trec_eval (averages are over all questions, as with trec_eval's
``-c``). A measure is computed from a :class:`Ranking`, which contains the ranks and gains of one question's
hits.

In commands and files, a measure's name consists of a scoring mode, a measure and a cutoff
(:class:`NamedMeasure`). A name without a prefix, such as ``nDCG@10`` (the name in ir-measures), means strict
scoring. A prefix chooses another scoring mode, as in ``relaxed_nDCG@10``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from math import fsum, log2
from typing import Any, Literal, get_args

import msgspec

from branchrank.core.errors import UsageError, nearest
from branchrank.core.records import Record
from branchrank.core.registry import Registry

#: The default measures of a comparison of TREC runs and of a BEIR run. The first is the primary measure.
BEIR_MEASURES = ("nDCG@10", "R@100", "AP")
#: The default measures of the scores of TREC runs, named as in ir-measures.
TREC_MEASURES = ("Success@1", "Success@5", "RR", "nDCG@10", "R@100", "AP")
_ONE_PER_HIT: Any = msgspec.UNSET


class Ranking(Record, frozen=True, kw_only=True):
    """The ranks and gains of one question's hits, from which measures are computed. Ranks start at 1."""

    #: A pair ``(rank, gain)`` for each judged hit, by rank. The gain of a hit that is not relevant is 0.
    gains: tuple[tuple[int, int], ...]
    #: The number of all hits, judged or not.
    returned: int
    #: The gains of all items: gold items or groups of ``needs``, and gold pages.
    gold: tuple[int, ...]
    #: A pair ``(rank, gain)`` for each item that was found, sorted. Hits on several items are repeated. The
    #: default is ``gains``: each judged hit is one item.
    items: tuple[tuple[int, int], ...] = _ONE_PER_HIT
    #: The rank of the first hit on each group of ``needs``, or ``None`` for a group without a hit.
    needs: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        if self.items is _ONE_PER_HIT:
            msgspec.structs.force_setattr(self, "items", self.gains)

    def judged_only(self) -> Ranking:
        """Return the ranking of the judged hits alone. A hit with a negative grade is not judged."""
        kept = [(rank, gain) for rank, gain in self.gains if gain >= 0]
        places = {rank: place for place, (rank, _) in enumerate(kept, start=1)}
        return msgspec.structs.replace(
            self,
            gains=tuple((places[rank], gain) for rank, gain in kept),
            returned=len(kept),
            items=tuple((places[rank], gain) for rank, gain in self.items if rank in places),
            needs=tuple(rank and places.get(rank) for rank in self.needs),
        )

    def exponential(self) -> Ranking:
        """Return the ranking with each gain g above 0 replaced by 2 ** g - 1."""

        def raised(pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
            return tuple((rank, _exponential(gain)) for rank, gain in pairs)

        gold = tuple(map(_exponential, self.gold))
        return msgspec.structs.replace(self, gains=raised(self.gains), items=raised(self.items), gold=gold)

    def relevant_ranks(self, rel: int, cutoff: int | None) -> list[int]:
        """Return the ranks, up to the cutoff, of the hits whose gain is at least ``rel``."""
        return [rank for rank, gain in self.gains if gain >= rel and (cutoff is None or rank <= cutoff)]

    def item_ranks(self, rel: int, cutoff: int | None = None) -> list[int]:
        """Return the rank, up to the cutoff, of each item with a gain of at least ``rel`` that was found."""
        return [rank for rank, gain in self.items if gain >= rel and (cutoff is None or rank <= cutoff)]

    def relevant_gold(self, rel: int) -> int:
        """Count the items whose gain is at least ``rel``."""
        return sum(gain >= rel for gain in self.gold)


def _exponential(gain: int) -> int:
    return 2 ** min(gain, _LARGEST_GRADE) - 1 if gain > 0 else gain


#: Larger grades have the exponential gain of this one, since larger gains are not floating-point numbers.
_LARGEST_GRADE = 1000
Compute = Callable[..., float]
#: How a hit becomes correct (:mod:`branchrank.scoring.matching`).
Mode = Literal["strict", "half", "full", "relaxed", "graded"]


def success(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return 1 if a relevant hit is among the first ``cutoff`` hits, else 0."""
    return float(bool(ranking.relevant_ranks(rel, cutoff)))


def all_needs(ranking: Ranking, cutoff: int, rel: int) -> float:
    """Return 1 if every group of ``needs`` has a hit among the first ``cutoff``, else 0.

    All gold of a question without ``needs`` is one group, so the value is that of :func:`success`.
    """
    if not ranking.needs:
        return success(ranking, cutoff, rel)
    return float(all(rank is not None and rank <= cutoff for rank in ranking.needs))


def reciprocal_rank(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return 1 divided by the rank of the first relevant hit, or 0 if no hit is relevant."""
    ranks = ranking.relevant_ranks(rel, cutoff)
    return 1 / ranks[0] if ranks else 0.0


def ndcg(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return the DCG (the sum of gain / log2(rank + 1) over the hits) divided by the ideal order's DCG.

    A hit on several items has the largest of their gains.
    """
    ideal = sorted((gain for gain in ranking.gold if gain > 0), reverse=True)[:cutoff]
    if not ideal:
        return 0.0
    found = fsum(
        gain / log2(rank + 1)
        for rank, gain in dict(ranking.items).items()
        if gain > 0 and (cutoff is None or rank <= cutoff)
    )
    return found / fsum(gain / log2(rank + 1) for rank, gain in enumerate(ideal, start=1))


def average_precision(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return the sum of the precisions at the ranks of the relevant items, divided by their number.

    The precision at a rank is the share of the hits up to this rank that found an item.
    """
    gold = ranking.relevant_gold(rel)
    items = Counter(ranking.item_ranks(rel, cutoff))
    found = fsum(items[rank] * (hits / rank) for hits, rank in enumerate(items, start=1))
    return found / gold if gold else 0.0


def recall(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return the share of the relevant items that the first ``cutoff`` hits found."""
    gold = ranking.relevant_gold(rel)
    return len(ranking.item_ranks(rel, cutoff)) / gold if gold else 0.0


def precision(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return the number of relevant hits among the first ``cutoff`` hits, divided by ``cutoff``."""
    return len(ranking.relevant_ranks(rel, cutoff)) / cutoff if cutoff else 0.0


def r_precision(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return the precision at rank R, where R is the number of relevant items."""
    return precision(ranking, ranking.relevant_gold(rel), rel)


#: The highest grade of the judgments for which ERR is defined, as in gdeval.
HIGHEST_GRADE = 4


def expected_reciprocal_rank(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return the expected value of 1 / rank for the hit that satisfies a reader, who reads from the top.

    A hit with the grade g satisfies the reader with the probability (2 ** g - 1) / 16, where g is at most 4.
    """
    expected, still_reading = 0.0, 1.0
    for rank, gain in ranking.gains:
        if cutoff is None or rank <= cutoff:
            satisfied = (2 ** min(max(gain, 0), HIGHEST_GRADE) - 1) / 2**HIGHEST_GRADE
            expected += still_reading * satisfied / rank
            still_reading *= 1 - satisfied
    return expected


def judged(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return the share of the first ``cutoff`` hits that were judged, or 0 if there are no hits."""
    depth = ranking.returned if cutoff is None else min(cutoff, ranking.returned)
    return sum(rank <= depth for rank, _ in ranking.gains) / depth if depth else 0.0


def binary_preference(ranking: Ranking, cutoff: int | None, rel: int) -> float:
    """Return Bpref, a variant of recall in which hits judged non-relevant reduce the weight of later hits.

    Unjudged hits are ignored. If no hit was judged non-relevant, Bpref equals the recall.
    """
    gold = ranking.relevant_gold(rel)
    if not gold:
        return 0.0
    refused = min(gold, sum(0 <= gain < rel for gain in ranking.gold))
    total, above, items = 0.0, 0, Counter(ranking.item_ranks(rel))
    for rank, gain in ranking.gains:
        if gain >= rel:
            total += items[rank] * (1 - min(above, gold) / refused if above else 1.0)
        elif gain >= 0:
            above += 1
    return total / gold


def rank_biased_precision(ranking: Ranking, cutoff: int | None, rel: int, p: float) -> float:
    """Return (1 - p) times the sum of p ** (rank - 1) over the relevant hits; unjudged hits add nothing."""
    return (1 - p) * fsum(p ** (rank - 1) for rank in ranking.relevant_ranks(rel, cutoff))


#: The default persistence p for RBP, which is the same as in ir-measures.
PERSISTENCE = 0.8


class Definition(Record, frozen=True, kw_only=True):
    """The name, function and unit of a measure, and the parameters that the measure accepts.

    Upper and lower case, ``_`` and ``-`` make no difference in names and aliases. The formulas and their
    sources are in ``docs/measures.md``.
    """

    name: str
    aliases: tuple[str, ...] = ()
    #: Whether the measure has a relevance threshold.
    takes_rel: bool = True
    #: Whether the measure has a persistence p, which is the last argument of ``compute``.
    takes_p: bool = False
    #: Whether the measure has the parameter dcg, which selects linear or exponential gains.
    takes_dcg: bool = False
    #: Whether ``@k`` is required, optional or not allowed.
    cutoff: Literal["needed", "optional", "none"] = "optional"
    #: Whether the mean is a share of the questions, which is printed in percent.
    is_share: bool = False
    compute: Compute


DEFINITIONS = (
    Definition(name="Success", aliases=("hit", "hit_rate"), cutoff="needed", is_share=True, compute=success),
    Definition(name="All", takes_rel=False, cutoff="needed", is_share=True, compute=all_needs),
    Definition(name="RR", aliases=("MRR", "recip_rank"), compute=reciprocal_rank),
    Definition(name="nDCG", takes_rel=False, takes_dcg=True, compute=ndcg),
    Definition(name="AP", aliases=("MAP",), compute=average_precision),
    Definition(name="R", aliases=("Recall",), cutoff="needed", compute=recall),
    Definition(name="P", aliases=("Precision",), cutoff="needed", compute=precision),
    Definition(name="Judged", takes_rel=False, compute=judged),
    Definition(name="Bpref", cutoff="none", compute=binary_preference),
    Definition(name="Rprec", aliases=("r_precision",), cutoff="none", compute=r_precision),
    Definition(name="ERR", takes_rel=False, compute=expected_reciprocal_rank),
    Definition(name="RBP", takes_p=True, compute=rank_biased_precision),
)

_BY_NAME = {name: each for each in DEFINITIONS for name in (each.name, *each.aliases)}
#: The measures of installed packages, which are looked up if a name is not one of these.
MEASURES = Registry[Definition]("measure", "measures", dict.fromkeys(_BY_NAME, ""), kind=Definition)


class Measure(Record, frozen=True, kw_only=True):
    """A definition with parameters, such as ``Measure(definition=..., cutoff=5, rel=2)``.

    ``str()`` returns the canonical name that ir-measures prints, such as ``Success(rel=2)@1``.
    """

    definition: Definition
    cutoff: int | None = None
    rel: int = 1
    p: float = PERSISTENCE
    #: Whether a grade g counts as 2 ** g - 1.
    is_exponential: bool = False
    #: Whether hits that were not judged are ignored.
    judged_only: bool = False

    def __str__(self) -> str:
        given = [f"rel={self.rel}"] if self.rel != 1 else []
        given += [f"p={Decimal(str(self.p)):f}"] if self.p != PERSISTENCE else []
        given += ["dcg='exp-log2'"] if self.is_exponential else []
        given += ["judged_only=True"] if self.judged_only else []
        parameters = f"({','.join(given)})" if given else ""
        cutoff = f"@{self.cutoff}" if self.cutoff is not None else ""
        return f"{self.definition.name}{parameters}{cutoff}"

    def __call__(self, ranking: Ranking) -> float:
        """Return the measure's value for one question, in 0..1."""
        ranking = ranking.judged_only() if self.judged_only else ranking
        ranking = ranking.exponential() if self.is_exponential else ranking
        persistence = (self.p,) if self.definition.takes_p else ()
        return self.definition.compute(ranking, self.cutoff, self.rel, *persistence)


#: A name of ir-measures (``nDCG@10``), trec_eval (``ndcg_cut_10``, ``P.10``) or ranx (``precision@5-l2``).
_NAME = re.compile(
    r"(?P<name>[A-Za-z]+(?:[_-][A-Za-z]+)*?)(?:\((?P<arguments>[^()]*)\))?"
    r"(?:(?:@|(?:_cut)?[_.])(?P<cutoff>[0-9]{1,99}))?(?:-l(?P<rel>[0-9]{1,99}))?"
)
#: The names that other programs give to measures with parameters.
_WITH_PARAMETERS = {r"(?i)^ndcg_burges\b": "nDCG(dcg='exp-log2')", r"(?i)^rbp\.(\d+)$": r"RBP(p=.\1)"}
#: Maps each parameter to a pattern of its values.
_VALUES = {
    "rel": "[0-9]{1,99}",
    "cutoff": "[0-9]{1,99}",
    "p": r"0?\.[0-9]+",
    "dcg": "log2|exp-log2",
    "judged_only": "True|False",
}


def parse_measure(text: str, scoring: str = "") -> Measure:
    """Return the measure named ``text``, such as ``nDCG@10``, ``RR``, ``Success(rel=2)@1`` or ``RBP(p=0.5)``.

    ``scoring`` is a prefix (such as ``strict_``) that error messages show before the measure's name. Raises
    :class:`UsageError` for an unknown name, for a parameter that the measure does not accept, and for a
    required cutoff that is missing or zero.
    """
    whole, text = scoring + text, text.strip()
    for pattern, name in _WITH_PARAMETERS.items():
        text = re.sub(pattern, name, text)
    match = _NAME.fullmatch(text)
    definition = _FOLDED.get(_folded(match["name"])) if match else None
    if match and definition is None and match["name"] in MEASURES.installed:
        definition = MEASURES.get(match["name"])
    if match is None or definition is None:
        known = ", ".join(
            f"{scoring}{name}{'@k' if each.cutoff == 'needed' else ''}" for name, each in _BY_NAME.items()
        )
        near = nearest(match["name"] if match else text, MEASURES.names)
        number = re.search(r"\d+$", text)
        rest = text[len(match["name"]) :] if match else f"@{number[0]}" if number else ""
        remedy = f"did you mean `{scoring}{near}{rest}`?" if near else f"use one of {known}"
        raise UsageError(f"unknown measure {whole!r}", remedy=remedy)
    given = _parse_arguments(whole, match["arguments"] or "")
    given |= {key: match[key] for key in ("cutoff", "rel") if match[key] is not None}
    made = Measure(
        definition=definition,
        cutoff=int(given["cutoff"]) if "cutoff" in given else None,
        rel=int(given.get("rel", 1)),
        p=float(given.get("p", PERSISTENCE)),
        is_exponential=given.get("dcg") == "exp-log2",
        judged_only=given.get("judged_only") == "True",
    )
    if made.cutoff is not None and definition.cutoff == "none":
        raise UsageError(f"measure {whole!r} does not have a cutoff", remedy=f"{scoring}{match['name']}")
    if made.cutoff == 0 or (made.cutoff is None and definition.cutoff == "needed"):
        raise UsageError(
            f"measure {whole!r} needs a cutoff of at least 1", remedy=f"{scoring}{match['name']}@5"
        )
    taken = {"rel": definition.takes_rel, "p": definition.takes_p, "dcg": definition.takes_dcg}
    for key in given:
        if not taken.get(key, True):
            raise UsageError(
                f"measure {whole!r} does not accept {key}", remedy=f"remove {key} from {whole!r}"
            )
    if made.rel < 1 or not 0 < made.p < 1:
        raise UsageError(
            f"measure {whole!r}: rel must be at least 1, and p between 0 and 1", remedy="rel=1, or p=0.8"
        )
    return made


def _folded(name: str) -> str:
    return re.sub("[_-]", "", name).casefold()


_FOLDED = {_folded(name): each for name, each in _BY_NAME.items()}


def _parse_arguments(text: str, arguments: str) -> dict[str, str]:
    """Return the values of the parameters in parentheses."""
    found: dict[str, str] = {}
    for argument in filter(None, arguments.split(",")):
        key, _, value = (part.strip().strip("'\"") for part in argument.partition("="))
        if not re.fullmatch(_VALUES.get(key, "(?!)"), value):
            raise UsageError(
                f"measure {text!r}: cannot read the parameter {argument.strip()!r}",
                remedy="write rel=2, cutoff=5, judged_only=True, dcg='exp-log2' (nDCG) or p=0.8 (RBP)",
            )
        found[key] = value
    return found


def judged_measure(like: Measure) -> Measure:
    """Return ``Judged`` with the cutoff of another measure, or with 10 if that measure has no cutoff."""
    return parse_measure(f"Judged@{like.cutoff or 10}")


def score(measure: Measure, rankings: Mapping[str, Ranking], questions: Iterable[str]) -> dict[str, float]:
    """Return the measure's value for every question id, in the order of ``questions``.

    A question whose query failed has no ranking and scores 0, so every mean includes failed queries.
    """
    return {each: measure(rankings[each]) if each in rankings else 0.0 for each in questions}


def mean(values: Collection[float]) -> float:
    """Return the arithmetic mean, or 0 if there are no values.

    ``fsum`` gives the same digits in every version of Python, unlike ``sum``, which changed in Python 3.12.
    """
    return fsum(values) / len(values) if values else 0.0


MODES: tuple[Mode, ...] = get_args(Mode)


class NamedMeasure(Record, frozen=True, kw_only=True):
    """A measure with its scoring, such as ``strict_hit@1``, ``relaxed_MRR@5`` or ``graded_nDCG@10``.

    ``name`` is the name that the user typed.
    """

    name: str
    mode: Mode
    measure: Measure

    @property
    def is_share(self) -> bool:
        """Whether the mean is a share of the questions, such as a hit rate (printed as a percentage)."""
        return self.measure.definition.is_share

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


def named_measures(names: Iterable[str]) -> tuple[NamedMeasure, ...]:
    """Parse several names, and drop repeated names. Raises the same errors as :func:`named_measure`.

    >>> [str(each.measure) for each in named_measures(["nDCG@10", "MAP", "nDCG@10"])]
    ['nDCG@10', 'AP']
    """
    return named_once(*(named_measure(name) for name in names))


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
