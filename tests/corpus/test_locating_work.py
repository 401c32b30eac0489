"""The work to locate a repetitive text is linear in the sizes of the text and the corpus.

Work is the number of steps that Python's tracing reports, so that the load of the machine has no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

import pytest

from branchrank.corpus.locating import Locator

Case = tuple[Mapping[str, Sequence[str]], str]


def one_word(size: int) -> Case:
    """A text of one word, with another word in the middle."""
    return {"a.md": ["tea " * size]}, f"{'tea ' * (size // 4)}zebra {'tea ' * (size // 4)}"


def equal_rows(size: int) -> Case:
    """A table with equal rows, and some of them with a word that the corpus lacks."""
    return {"a.md": ["| see the note |"] * (size // 3)}, "| see the note |\n" * (size // 6) + "zebra see the"


def steps(case: Case) -> int:
    """Return the number of steps to locate a text, without the index."""
    documents, text = case
    locator = Locator(documents)
    locator.locate("build the index")
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        locator.locate(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("case", [one_word, equal_rows])
def test_four_times_the_text_and_corpus_take_four_times_the_work(case: Callable[[int], Case]) -> None:
    assert steps(case(1600)) < 5 * steps(case(400))
