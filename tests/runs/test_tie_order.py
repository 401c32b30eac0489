"""The order of tied documents, rank for rank, is that of trec_eval: every line of the table in
docs/exchange.md, and runs made of ties.

pytrec_eval gives measures, not ranks. So each document is judged alone, in a query of its own over the same
list: its reciprocal rank is one over the rank that trec_eval gives it.
"""

from __future__ import annotations

import re
import struct

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from support.commands import ROOT

from branchrank.scoring.matching import run_ranking


def order_by_trec_eval(scores: dict[str, float]) -> list[str]:
    """The documents, best first, as trec_eval ranks them."""
    queries = {f"q{place}": document for place, document in enumerate(scores)}
    evaluator = pytrec_eval.RelevanceEvaluator(
        {query: {document: 1} for query, document in queries.items()}, {"recip_rank"}
    )
    found = evaluator.evaluate(dict.fromkeys(queries, scores))
    ranks = {queries[query]: round(1 / each["recip_rank"]) for query, each in found.items()}
    assert sorted(ranks.values()) == list(range(1, len(scores) + 1))
    return sorted(ranks, key=ranks.__getitem__)


def order_by_ours(scores: dict[str, float]) -> list[str]:
    """The documents, best first, as ``score-trec`` and ``compare-trec`` rank them."""
    ranks = {document: run_ranking(scores, {document: 1}).gains[0][0] for document in scores}
    return sorted(ranks, key=ranks.__getitem__)


def table() -> list[tuple[str, dict[str, float], list[str]]]:
    """(what is tied, document -> score in the order of the file, the order that the page says)."""
    text = (ROOT / "docs" / "exchange.md").read_text(encoding="utf-8")
    lines = text.split("<!-- ties -->")[1].split("<!-- /ties -->")[0].strip().splitlines()[2:]
    found = []
    for line in lines:
        case, scores, order = (cell.strip() for cell in line.strip("|").split("|"))
        pairs = [pair.split("=") for pair in re.findall(r"`([^`]+)`", scores)]
        found.append((case, {key: float(value) for key, value in pairs}, re.findall(r"`([^`]+)`", order)))
    return found


@pytest.mark.parametrize(("case", "scores", "order"), table(), ids=lambda value: str(value)[:30])
def test_the_documented_tie_order_matches_trec_eval_and_the_code(
    case: str, scores: dict[str, float], order: list[str]
) -> None:
    assert order == order_by_trec_eval(scores)
    assert order == order_by_ours(scores)


def single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


NEAR = [
    1.0,
    1.0 + 1e-9,
    1.0 - 1e-9,
    single(1.0000001),
    0.1,
    0.1 + 1e-12,
    0.0,
    -0.0,
    -1.0,
    1e-46,
    16777216.0,
    16777217.0,
]
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=4)


@given(
    st.dictionaries(
        NAMES | st.sampled_from(["d1", "d10", "d9", "D9", "a", "A"]),
        st.sampled_from(NEAR),
        min_size=1,
        max_size=12,
    )
)
def test_any_ties_are_broken_as_in_trec_eval(scores: dict[str, float]) -> None:
    assert order_by_ours(scores) == order_by_trec_eval(scores)
