"""Filters of a query."""

from __future__ import annotations

import pytest

from branchrank.errors import UsageError
from branchrank.systems.query import read_filter


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
    assert read_filter(f"file_path={pattern}").admits(source) == admitted


@pytest.mark.parametrize("text", ["guide/*.md", "title=Guide", "file_path"])
def test_an_unknown_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no known key"):
        read_filter(text)
