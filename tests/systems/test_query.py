"""Filters of a query."""

from __future__ import annotations

import pytest

from branchrank.errors import UsageError
from branchrank.systems.query import read_filters


@pytest.mark.parametrize(
    ("pattern", "source", "admitted"),
    [
        ("guide/a.md", "guide/a.md", True),
        ("guide/a.md", "guide/a.md.txt", False),
        ("guide/*.md", "guide/a.md", True),
        ("guide/*.md", "guide/a.rst", False),
        ("guide/[a].md", "guide/[a].md", True),
        ("Guide/a.md", "guide/a.md", False),
    ],
)
def test_a_filter_is_the_path_itself_or_a_glob(pattern: str, source: str, admitted: bool) -> None:
    for key in ("file_path", "source"):
        (found,) = read_filters(f"{key}={pattern}")
        assert found.admits(source) == admitted


@pytest.mark.parametrize("text", ["guide/*.md", "title=Guide", ""])
def test_an_unknown_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="has no known key"):
        read_filters(["source=*", text])


def test_a_filter_needs_a_value_and_a_typo_gets_a_suggestion() -> None:
    for text in ("file_path", "file_path="):
        with pytest.raises(UsageError, match="has no value"):
            read_filters(text)
    with pytest.raises(UsageError, match="did you mean `file_path`"):
        read_filters("filepath=a.md")
