"""Headings and blocks to sections: nesting, the page's title, ids and own spans."""

from __future__ import annotations

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
