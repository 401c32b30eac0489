"""Orders of the passages of a pool of sections: hand-computed values, and laws over generated pools."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.core.ranked_lists import RankedList, ranked
from branchrank.search.ranking.passages import by_rrf, led_by_sections

PASSAGES = ranked({"a1": 0.5, "a2": 0.9, "a3": 0.1, "b1": 0.8, "c1": 0.2, "c2": 0.3})
SECTION_OF = {key: key[0] for key in PASSAGES.ids}


def test_rrf_sums_the_ranks_of_the_section_and_of_both_lists() -> None:
    lists = {"dense": ranked({"b1": 0.9, "a2": 0.8, "z1": 0.7}), "bm25": ranked({"z1": 9.0, "a1": 7.0})}
    order = by_rrf(SECTION_OF, ["c", "a", "b"], lists, 10, {"dense": 2.0, "bm25": 0.5})
    assert dict(order) == pytest.approx(
        {
            "a1": 1 / 12 + 0.5 / 12,
            "a2": 1 / 12 + 2 / 12,
            "a3": 1 / 12,
            "b1": 1 / 13 + 2 / 11,
            "c1": 1 / 11,
            "c2": 1 / 11,
        }
    )
    assert order.ids == ("b1", "a2", "a1", "c1", "c2", "a3")


def test_the_best_passage_of_each_section_comes_first() -> None:
    best = ranked({"a1": 3.0, "a2": 2.0, "a3": 1.0, "b1": 3.0, "c1": 1.0, "c2": 2.0})
    led = led_by_sections(PASSAGES, best, SECTION_OF, ["c", "a", "d", "b"])
    assert led.ids == ("c2", "a1", "b1", "a2", "c1", "a3")
    assert led.scores == (1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6)


POOLS = st.dictionaries(
    st.tuples(st.sampled_from("abcdef"), st.integers(0, 9)).map(lambda pair: f"{pair[0]}{pair[1]}"),
    st.floats(-1, 2),
    max_size=25,
).map(ranked)


@settings(derandomize=True)
@given(passages=POOLS, order=st.permutations("abcdef"))
def test_the_pool_keeps_all_passages_and_both_orders(passages: RankedList, order: list[str]) -> None:
    section_of = {key: key[0] for key in passages.ids}
    led = led_by_sections(passages, passages, section_of, order).ids
    assert sorted(led) == sorted(passages.ids)
    present = [section for section in order if section in section_of.values()]
    assert [key[0] for key in led[: len(present)]] == present
    assert list(led[len(present) :]) == [key for key in passages.ids if key not in led[: len(present)]]
    for section, own in groupby(sorted(led, key=lambda key: key[0]), key=lambda key: key[0]):
        assert list(own) == [key for key in passages.ids if key[0] == section]
