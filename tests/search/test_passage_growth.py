"""Growth of passages: hand-computed cases, and its laws over generated sections."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.search.ranking.passages import placed


@pytest.mark.parametrize(
    ("passage", "above", "target", "expected"),
    [
        ((10, 13), [], 0, (10, 13)),
        ((10, 13), [], 4, (10, 13)),
        ((10, 13), [], 5, (10, 14)),  # the odd line comes after
        ((10, 13), [], 8, (8, 15)),
        ((2, 3), [], 9, (1, 9)),  # no more room before: the rest comes after
        ((38, 40), [], 9, (32, 40)),
        ((10, 13), [], 500, (1, 40)),
        ((10, 13), [(14, 20)], 8, (6, 13)),
        ((10, 13), [(5, 8), (15, 20)], 8, (9, 14)),
        ((10, 19), [(1, 14)], 0, (15, 19)),  # what is returned above is not returned again
        ((10, 19), [(12, 13)], 0, (14, 19)),
        ((10, 19), [(14, 15)], 0, (10, 13)),  # equal runs: the first
        ((7, 14), [(9, 9)], 0, (10, 14)),
        ((10, 19), [(5, 30)], 25, None),
    ],
)
def test_a_passage_grows_on_both_sides(passage, above, target, expected) -> None:
    assert placed(passage, (1, 40), above, target) == expected


@st.composite
def sections(draw):
    """A section, passages inside it, and a target."""
    first = draw(st.integers(1, 30))
    last = first + draw(st.integers(0, 60))
    lines = st.integers(first, last)
    passages = draw(st.lists(st.tuples(lines, lines).map(lambda ends: (min(ends), max(ends))), max_size=8))
    return (first, last), passages, draw(st.integers(0, 40))


def covered(passages) -> set[int]:
    return {line for first, last in passages for line in range(first, last + 1)}


@settings(derandomize=True)
@given(case=sections())
def test_passages_fill_their_section_and_never_overlap(case) -> None:
    section, passages, target = case
    above = []
    for passage in passages:
        own = covered([passage]) - covered(above)
        grown = placed(passage, section, reversed(above), target)
        assert (grown is None) == (not own)
        if grown is None:
            continue
        lines = covered([grown])
        assert lines <= covered([section]) - covered(above)
        assert lines & own
        free = [
            grown[0] - 1 in covered([section]) - covered(above),
            grown[1] + 1 in covered([section]) - covered(above),
        ]
        if len(lines) < target:
            assert not any(free), "there was room left"
        if len(lines) > max(target, 1):
            assert lines <= own, "it grew past the target"
        above.append(grown)
