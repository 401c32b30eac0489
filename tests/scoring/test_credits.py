"""A hit is credited with every gold item that it holds, and groups of items that are needed together."""

from math import log2

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gold import gold, golds_of, hit, hits_of, question

from branchrank.scoring.matching import JudgedHit, is_strict, judge
from branchrank.scoring.measures import MODES, parse_measure

NAMES = (
    "Success@2",
    "RR",
    "All@2",
    "R@2",
    "R@5",
    "P@5",
    "AP",
    "AP@2",
    "nDCG",
    "nDCG@2",
    "Bpref",
    "RBP",
    "Judged@5",
)


def value(name, judged, mode="strict"):
    return parse_measure(name)(judged.ranking(mode))


def graded(item, relevance):
    return msgspec.structs.replace(item, relevance=relevance)


FIRST, SECOND, THIRD = gold("a.md", 10, 20), gold("a.md", 15, 30), gold("b.md", 1, 5)
BOTH = hit("a.md", 12, 18)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("R@1", 0),
        ("R@2", 2 / 3),
        ("R@5", 1),
        ("P@5", 2 / 5),
        ("AP", (1 / 2 + 1 / 2 + 2 / 4) / 3),
        ("RR", 1 / 2),
        ("nDCG", (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3) + 1 / 2)),
        ("Bpref", 1),
        ("Judged@4", 2 / 4),
        ("RBP", 0.2 * (0.8 + 0.8**3)),
    ],
)
def test_a_hit_on_two_items_finds_both(name, expected):
    """Rank 2 holds two items, rank 3 one of them again, and rank 4 the third."""
    hits = [hit("c.md", 1, 2), BOTH, hit("a.md", 25, 28), hit("b.md", 5, 9)]
    judged = judge(hits, question(FIRST, SECOND, THIRD))
    assert [each.credits for each in judged.hits] == [(), (0, 1), (), (2,)]
    assert value(name, judged) == pytest.approx(expected)


def test_the_gain_of_a_hit_is_the_largest_of_its_items():
    items = (graded(FIRST, 1), graded(SECOND, 3))
    for asked in (question(*items), question(*reversed(items))):
        [judged] = judge([BOTH], asked).hits
        assert (judged.gain, asked.gold[judged.gold].relevance, len(judged.credits)) == (3, 3, 2)
        # The ideal order has the gains 3 and 1 of the items, and 1 of the page.
        assert value("nDCG", judge([BOTH], asked), "graded") == pytest.approx(3 / (3 + 1 / log2(3) + 1 / 2))


def test_half_and_full_credit_go_to_every_item():
    judged = judge([hit("a.md", 10, 26)], question(FIRST, SECOND))
    assert [value("R@1", judged, mode) for mode in ("strict", "half", "full")] == [1, 1, 1 / 2]


def test_a_row_of_an_older_version_has_one_item_per_hit():
    [judged] = judge([BOTH], question(FIRST, SECOND)).hits
    line = msgspec.json.decode(msgspec.json.encode(judged))
    assert line.pop("also_gold") == [1]
    assert msgspec.convert(line, JudgedHit).credits == (0,)
    assert "also_gold" not in msgspec.to_builtins(judge([BOTH], question(FIRST)).hits[0])


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        # The alternative of the first group, then the same group again, then the second group.
        (("d", "a", "c"), {"All@2": 0, "All@3": 1, "R@1": 1 / 2, "R@2": 1 / 2, "R@3": 1, "P@3": 1, "RR": 1}),
        (("d", "a", "c"), {"AP": (1 + 2 / 3) / 2, "nDCG": (1 + 1 / 2) / (1 + 1 / log2(3))}),
        (("x", "c"), {"All@5": 0, "Success@5": 1, "R@5": 1 / 2, "AP": 1 / 4, "RR": 1 / 2}),
        (("c", "a"), {"All@1": 0, "All@2": 1, "AP": 1, "nDCG@2": 1}),
        ((), {"All@5": 0, "R@5": 0, "AP": 0, "nDCG": 0}),
    ],
)
@pytest.mark.parametrize("mode", ["strict", "half", "relaxed"])
def test_a_group_of_needs_is_one_item(hits, expected, mode):
    asked = question(*(gold(name, 1, 5) for name in "adc"), needs=((0, 1), (2,)))
    judged = judge([hit(name, 1, 5) for name in hits], asked)
    assert {name: value(name, judged, mode) for name in expected} == pytest.approx(expected)


def test_a_group_has_the_largest_gain_and_other_gold_is_an_item_of_its_own():
    items = (gold("a", 1, 5), graded(gold("b", 1, 5), 5), gold("c", 1, 5))
    judged = judge([hit("a", 1, 5)], question(*items, needs=((0, 1),)))
    pages = 1 / log2(4) + 1 / log2(5)  # of the group, and of the other gold
    assert value("nDCG", judged, "graded") == pytest.approx(5 / (5 + 2 / log2(3) + pages))
    assert (value("R@1", judged), value("All@1", judged)) == (1 / 2, 1)


def test_without_needs_all_gold_is_one_group():
    judged = judge([hit("b.md", 1, 1)], question(FIRST, THIRD))
    assert (value("All@1", judged), value("R@1", judged)) == (1, 1 / 2)


grades = st.lists(st.sampled_from([None, 1, 2, 3]), min_size=4, max_size=4)
groups_of = st.lists(st.sets(st.integers(0, 3), min_size=1), max_size=3)
levels = st.sampled_from(["span", "file"])


def asked_of(golds, relevances, groups, level):
    items = [graded(*each) for each in zip(golds, relevances, strict=False)]
    kept = [sorted(number for number in group if number < len(items)) for group in groups]
    return question(*items, needs=tuple(tuple(group) for group in kept if group), gold_level=level)


@given(hits_of, golds_of, grades, groups_of, levels, st.randoms())
def test_the_order_of_the_gold_changes_nothing(hits, golds, relevances, groups, level, draw):
    asked = asked_of(golds, relevances, groups, level)
    order = draw.sample(range(len(golds)), len(golds))
    needs = [[order.index(number) for number in group] for group in asked.needs]
    other = msgspec.structs.replace(
        asked,
        gold=tuple(asked.gold[number] for number in order),
        needs=tuple(tuple(draw.sample(group, len(group))) for group in draw.sample(needs, len(needs))),
    )
    one, two = judge(hits, asked), judge(hits, other)
    for mode in MODES:
        for name in NAMES:
            assert 0 <= value(name, one, mode) <= 1 + 1e-12
            assert value(name, one, mode) == pytest.approx(value(name, two, mode), abs=1e-12), (name, mode)


@given(hits_of, golds_of, groups_of, levels)
def test_recall_and_average_precision_follow_from_their_definitions(hits, golds, groups, level):
    asked = asked_of(golds, [None] * 4, groups, level)
    first = [
        next((rank for rank, each in enumerate(hits, start=1) if is_strict(each, item, asked)), 0)
        for item in asked.gold
    ]
    alone = [[number] for number in range(len(golds)) if not any(number in group for group in asked.needs)]
    found = [
        min(filter(None, (first[number] for number in group)), default=0) for group in [*asked.needs, *alone]
    ]
    judged, credited = judge(hits, asked), set(filter(None, found))
    precisions = [sum(rank <= at for rank in credited) / at if at else 0.0 for at in found]
    assert value("AP", judged) == pytest.approx(sum(precisions) / len(found))
    for k in (1, 2, 5, 8):
        assert value(f"R@{k}", judged) == pytest.approx(sum(0 < rank <= k for rank in found) / len(found))
        if all(0 < rank <= k for rank in first):
            assert value(f"R@{k}", judged) == value(f"All@{k}", judged) == 1
        wanted = found[: len(asked.needs)] or [min(filter(None, first), default=0)]
        assert value(f"All@{k}", judged) == all(0 < rank <= k for rank in wanted)
        assert value(f"All@{k}", judged) <= value(f"Success@{k}", judged)
