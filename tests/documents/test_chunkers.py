"""Every chunker, built in or of a real package: its chunks are in their lines, in order, and repeatable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.errors import BranchRankError, MissingDependencyError, UsageError
from branchrank.core.records import Chunk
from branchrank.core.settings import IndexSettings
from branchrank.documents.chunkers import check_chunker, chunker_version, chunks_of, open_chunker
from branchrank.documents.chunking import token_counter, token_slices
from branchrank.documents.lines import split_lines
from branchrank.documents.reading import read_document
from branchrank.documents.text_chunkers import Piece

TOKENS = 40
BUILTIN = ("window", "recursive", "sentences", "document")
#: Chunkers that keep every character that is not blank.
COVERING = (
    *BUILTIN,
    "langchain:RecursiveCharacterTextSplitter",
    "langchain:MarkdownTextSplitter",
    "llamaindex:SentenceSplitter",
    "llamaindex:MarkdownNodeParser",
    "chonkie:TokenChunker",
    "chonkie:RecursiveChunker",
    "chonkie:SentenceChunker",
)
#: Chunkers that leave out headings, or have another size.
OTHERS = (
    "langchain:CharacterTextSplitter",
    "langchain:ExperimentalMarkdownSyntaxTextSplitter",
    "llamaindex:TokenTextSplitter",
    "chonkie:FastChunker",
)
#: Chunkers of at most ``TOKENS`` tokens.
MEASURED = (*BUILTIN[:3], "langchain:RecursiveCharacterTextSplitter", "chonkie:RecursiveChunker")

PAGE = """\
# Pool

A pool keeps connections open. Each has a limit! What happens then? It waits.

## Size

Set `pool_size` to the number of connections. See the table for the other settings, which are rarely needed.

| setting | default |
| --- | --- |
| `pool_size` | 5 |
| `max_overflow` | 10 |

```python
engine = create_engine(URL, pool_size=5)

engine.dispose()
```

## Size

Set `pool_size` to the number of connections. The second section repeats a sentence of the first one.
"""
DOCUMENTS = {
    "page": PAGE,
    "empty": "",
    "blank": " \n\n\t \n",
    "a long line": "several words and more " * 300,
    "a long word": "a" * 5000,
    "repeated lines": "the same line\n" * 120,
    "a heading alone": "# A\n## B\n### C\n",
    "scripts": "日本語の文です。次の文。" * 40 + "\n\n# Ünï\n\nÀ \U0001f469‍\U0001f467 e\u0301.\n",
    "line breaks": "a\r\n\r\nb\r\n# C\r\nd\x0b\x0c\x1ce\u2028f\x85g\n",
    "markup": "# [x](<y>) `z`\n\n<div>\n\n```\nunclosed\n# not a heading\n",
    "special tokens": "".join(f"[CLS] {n} [SEP] <|endoftext|> ✄ \x00\n" for n in range(20)),
}


def squeezed(text: str) -> str:
    return "".join(text.split())


def chunked(name: str, content: str, overlap: int = 0) -> tuple[list[str], list[Chunk], list[str]]:
    document = read_document("p.md", content.encode())
    lines = split_lines(content.replace("\0", " "))
    chunker = open_chunker(name, TOKENS, overlap)
    assert chunker is not None
    return lines, *chunks_of(document, lines, chunker, name)


def each_chunker() -> list[object]:
    """All chunkers; importing LlamaIndex takes seconds."""
    slow = pytest.mark.full
    return [pytest.param(each, marks=slow if "llama" in each else ()) for each in (*COVERING, *OTHERS)]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("overlap", [0, 12])
@pytest.mark.parametrize("name", each_chunker())
def test_a_chunk_is_in_its_lines_in_order_and_the_same_each_time(name: str, overlap: int) -> None:
    for kind, content in DOCUMENTS.items():
        lines, chunks, notes = chunked(name, content, overlap)
        assert (lines, chunks, notes) == chunked(name, content, overlap), kind
        assert not notes, kind
        assert bool(chunks) == bool(content.strip()) or name in OTHERS, kind
        assert len({chunk.id for chunk in chunks}) == len(chunks)
        spans = [(chunk.line_start, chunk.line_end) for chunk in chunks]
        assert [first for first, _ in spans] == sorted(first for first, _ in spans), kind
        for chunk in chunks:
            inside = lines[chunk.line_start - 1 : chunk.line_end]
            assert squeezed(chunk.text) in squeezed("".join(inside)), kind
            assert inside[0].strip(), kind
            assert inside[-1].strip(), kind
        covered = {number for first, last in spans for number in range(first, last + 1)}
        missing = {number for number, line in enumerate(lines, start=1) if line.strip()} - covered
        assert name in OTHERS or not missing, kind
        sizes = [token_counter()(chunk.text) for chunk in chunks]
        assert name not in MEASURED or max(sizes, default=0) <= TOKENS, kind


texts = st.lists(
    st.sampled_from(
        ["# A", "## B", "", "same words here.", "same words here.", "x" * 150, "a. b! c?", "  d"]
    ),
    max_size=25,
).map("\n".join)


@given(texts, st.sampled_from(BUILTIN), st.sampled_from([0, 8]))
def test_lines_are_those_of_the_offsets_and_without_an_overlap_texts_suffice(
    content: str, name: str, overlap: int
) -> None:
    chunker = open_chunker(name, TOKENS, overlap)
    assert chunker is not None
    pieces = [piece for piece in chunker.chunk(content) if isinstance(piece, Piece)]
    expected = []
    for text, start in pieces:
        assert start is not None
        assert content[start : start + len(text)] == text
        first = content.count("\n", 0, start) + 1
        expected.append((first, first + text.count("\n")))
    lines, chunks, _ = chunked(name, content, overlap)
    assert [(chunk.line_start, chunk.line_end) for chunk in chunks] == expected
    if not overlap:

        class Texts:
            def chunk(self, text: str) -> list[str]:
                return [piece.text for piece in pieces]

        found, _ = chunks_of(read_document("p.md", content.encode()), lines, Texts(), "texts")
        assert [(chunk.line_start, chunk.line_end) for chunk in found] == expected


class Fixed:
    """A chunker that returns what it was given."""

    def __init__(self, *pieces: str | Piece) -> None:
        self.pieces = pieces

    def chunk(self, text: str) -> tuple[str | Piece, ...]:
        return self.pieces


def placed(content: str, *pieces: str | Piece) -> tuple[list[tuple[int, int]], list[str]]:
    document, lines = read_document("p.md", content.encode()), split_lines(content)
    chunks, notes = chunks_of(document, lines, Fixed(*pieces), "fixed")
    return [(chunk.line_start, chunk.line_end) for chunk in chunks], notes


def test_a_text_is_found_by_its_offset_else_after_the_previous_chunk_else_anywhere() -> None:
    content = "b\na\nb\na\nb\n"
    assert placed(content, "a", "b", "a")[0] == [(2, 2), (3, 3), (4, 4)]
    assert placed(content, Piece("b", 8), "a")[0] == [(5, 5), (2, 2)], "the last chunk is not in order"
    assert placed(content, Piece("a", 6))[0] == [(4, 4)]
    assert placed(content, Piece("a", 5))[0] == [(4, 4)], "whitespace before the text"
    assert placed(content, Piece("a", 4), Piece("b", -7), Piece("b", 999))[0] == [(2, 2), (3, 3), (5, 5)]
    assert placed("one two\n\nthree\nfour\n", "one two three", "two\nthree four")[0] == [(1, 3), (1, 4)]
    titled = "Pool: use it\n\nA pool keeps connections open. Each has a limit! What happens then? It waits."
    assert placed(PAGE, titled, "## Size")[0] == [(3, 3), (5, 5)], "a title was added"
    found, notes = placed(content, "a", "nowhere", "b")
    assert found == [(2, 2), (3, 3)]
    assert [note.partition(" chunks")[0] for note in notes] == ["'p.md': the text of 1 of 3"]


def test_a_chunk_belongs_to_the_section_with_the_most_lines_and_names_all_of_them() -> None:
    content = "# A\none\n\n## B\ntwo\n\n## C\nthree\nfour\nfive\n"
    document, lines = read_document("p.md", content.encode()), split_lines(content)
    pieces = ("one ## B two", "one ## B two ## C three four five", "one", "two ## C")
    chunks, _ = chunks_of(document, lines, Fixed(*pieces), "fixed")
    assert [(each.id, each.node_ids) for each in chunks] == [
        ("p.md@1", ("p.md", "p.md#b")),
        ("p.md#c@1", ("p.md", "p.md#b", "p.md#c")),
        ("p.md@2", ()),
        ("p.md#b@1", ("p.md#b", "p.md#c")),
    ]


@given(st.text(max_size=200))
def test_the_slices_of_a_text_are_the_text(text: str) -> None:
    assert "".join(token_slices(text)) == text


def test_what_cannot_be_opened_is_an_error_with_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_chunks.py").write_text(
        "import langchain_text_splitters as lc\n"
        "HEADERS = lc.MarkdownHeaderTextSplitter([('#', 'title')])\n"
        "class Lines:\n"
        "    def __init__(self, chunk_tokens, count_tokens):\n"
        "        self.size = chunk_tokens\n"
        "    def chunk(self, text):\n"
        "        return [str(self.size)] if text == 'size' else 1 / 0\n"
        "def call(text): return [text]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("own_chunks", None)
    assert [chunk.text for chunk in chunked("own_chunks:HEADERS", "# A\n\none\n\n# B\n\ntwo\n")[1]] == [
        "one",
        "two",
    ]
    chunker = open_chunker("own_chunks:Lines", TOKENS, 0)
    assert chunker is not None
    assert [*chunker.chunk("size")] == [Piece(str(TOKENS))]
    wrong = {
        "own_chunks:Lines": "failed on 'p.md': ZeroDivisionError",
        "own_chunks:call": "is a function without a method split_text",
        "os:system": "is a builtin_function_or_method without a method",
        "own_chunks:nothing": "cannot be imported: AttributeError",
        "no_such_module:x": "cannot be imported: ModuleNotFoundError",
        "windows": "did you mean `window`?",
        "chonkie:TokenChunk": "did you mean `TokenChunker`?",
        "langchain:MarkdownHeaderTextSplitter": "can't be made: TypeError",
    }
    for name, message in wrong.items():
        with pytest.raises(UsageError) as raised:
            chunked(name, "text")
        assert message in raised.value.message
        assert raised.value.remedy
    version = chunker_version("own_chunks:Lines")
    (tmp_path / "own_chunks.py").write_text("")
    assert version
    assert chunker_version("own_chunks:Lines") not in (version, "")
    assert chunker_version("window") == chunker_version("no_such_module:x") == ""
    assert chunker_version("chonkie:TokenChunker").startswith("chonkie ")


def test_a_missing_package_is_an_error_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "langchain_text_splitters", None)
    with pytest.raises(MissingDependencyError) as raised:
        check_chunker(IndexSettings(chunker="langchain:CharacterTextSplitter"))
    assert isinstance(raised.value, BranchRankError)
    assert "langchain-text-splitters" in raised.value.remedy
