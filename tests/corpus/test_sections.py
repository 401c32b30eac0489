"""Headings and blocks to sections: nesting, the page's title, ids and own spans."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.corpus.document import Document, Heading, Section, breadcrumbs, finish_sections, slug


def _sections(
    *levels_and_titles: tuple[int, str], line_count: int = 100, title: str = ""
) -> tuple[Section, ...]:
    headings = [
        Heading(level, name, line_start=10 * number, line_end=10 * number + 1)
        for number, (level, name) in enumerate(levels_and_titles, start=1)
    ]
    return finish_sections("a/page.rst", headings=headings, blocks=[], line_count=line_count, title=title)


def test_skipped_levels_are_nested_and_repeated_siblings_are_numbered() -> None:
    sections = _sections((1, "A"), (3, "Same"), (3, "Same"), (2, "Same"), (1, "Z"))
    assert [s.id.partition("#")[2] for s in sections] == ["", "a", "a/same", "a/same~2", "a/same~3", "z"]
    assert [s.level for s in sections] == [0, 1, 2, 2, 2, 1]


def test_slugs_keep_letters_of_any_script_and_are_never_empty() -> None:
    assert slug("The `HttpCache` & Ömer's_x") == "the-httpcache-ömer-s_x"
    assert slug("???") == "section"
    assert len(slug("word " * 100)) <= 80


def test_breadcrumbs_go_from_the_title_of_the_page_down() -> None:
    sections = _sections((1, "Cache"), (2, "Pools"), (3, "Tags"))
    document = Document(source="a", title="Cache", digest="", line_count=100, sections=sections)
    assert breadcrumbs(document) == ("Cache", "Cache > Pools", "Cache > Pools > Tags")


@settings(derandomize=True, max_examples=150)
@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 4), st.sampled_from(["A", "B", "", "a"])), max_size=12
    ),
    st.integers(0, 5),
)
def test_own_spans_partition_the_lines_and_ids_are_unique(
    steps: list[tuple[int, int, str]], rest: int
) -> None:
    headings, line = [], 1
    for level, length, title in steps:
        headings.append(Heading(level, title, line, line))
        line += length
    count = max(1, line - 1 + rest)
    sections = finish_sections("s", headings=headings, blocks=[], line_count=count)
    covered = [n for s in sections for n in range(s.line_start, s.own_line_end + 1)]
    assert covered == list(range(1, count + 1))
    assert len({s.id for s in sections}) == len(sections)
    for section in sections[1:]:
        assert section.parent is not None
        parent = sections[section.parent]
        assert parent.level == section.level - 1
        assert parent.line_start <= section.line_start <= section.line_end <= parent.line_end
