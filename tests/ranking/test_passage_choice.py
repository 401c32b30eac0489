"""Passages of sections whose order leads: hand-computed values, and laws over generated pools."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.ranking.lists import RankedList, ranked
from branchrank.ranking.passages import best_of_each, led_by_sections
from branchrank.records import Scored

PASSAGES = ranked({"a1": 0.5, "a2": 0.9, "a3": 0.1, "b1": 0.8, "c1": 0.2, "c2": 0.3})
SECTION_OF = {key: key[0] for key in PASSAGES.ids}


def test_a_passage_scores_by_both_ranks() -> None:
    assert led_by_sections(PASSAGES, SECTION_OF, ["c", "a", "b"]) == [
        Scored("c2", 1.0),
        Scored("a2", 1 / 2),
        Scored("c1", 1 / 2),
        Scored("b1", 1 / 3),
        Scored("a1", 1 / 4),
        Scored("a3", 1 / 6),
    ]


def test_the_best_of_each_section_follows_the_order_of_sections() -> None:
    expected = [Scored("c2", 1.0), Scored("a2", 1 / 2), Scored("b1", 1 / 3)]
    assert best_of_each(PASSAGES, SECTION_OF, ["c", "a", "b"]) == expected
    assert best_of_each(RankedList((), ()), {}, ["c"]) == []


POOLS = st.dictionaries(
    st.tuples(st.sampled_from("abcdef"), st.integers(0, 9)).map(lambda pair: f"{pair[0]}{pair[1]}"),
    st.floats(-1, 2),
    max_size=25,
).map(ranked)


@settings(derandomize=True)
@given(passages=POOLS, order=st.permutations("abcdef"))
def test_the_pool_keeps_all_passages_and_both_orders(passages, order) -> None:
    section_of = {key: key[0] for key in passages.ids}
    led = led_by_sections(passages, section_of, order)
    assert sorted(led.ids) == sorted(passages.ids)
    for section in order:
        own = [key for key in led.ids if key[0] == section]
        assert own == [key for key in passages.ids if key[0] == section]
    firsts = best_of_each(passages, section_of, order).ids
    assert [key[0] for key in firsts] == [section for section in order if section in section_of.values()]
    assert [key for key in led.ids if key in firsts] == list(firsts)
