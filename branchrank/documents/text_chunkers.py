"""Chunkers that divide a text without regard to its sections: built-in ones, and those of other packages.

Built-in:

1. The text is cut into units that cover it. The units of ``window`` are words, and those of ``sentences``
   are sentences. A unit with more tokens than a chunk is cut into words, and a word that is too large is cut
   between characters.
2. Units are packed into chunks in order, as many as fit. With an overlap of n tokens, a chunk starts with
   the last units of the previous chunk, up to n tokens.
3. ``recursive`` packs paragraphs. A paragraph that is too large is divided on its own: into lines, a large
   line into sentences, and a large sentence into words.
4. ``document`` makes one chunk of each document, however long. An embedding model reads only its beginning.

Chunking takes time linear in the length of the text.

Of LangChain, LlamaIndex and chonkie, and objects with the same methods:

1. A class is instantiated with those of these arguments that it takes: ``chunk_size`` (or ``chunk_tokens``)
   and ``chunk_overlap`` in tokens, and BranchRank's tokenizer as ``length_function``, ``count_tokens`` or
   ``tokenizer``. A class that takes no tokenizer keeps its own size, which is not in tokens.
2. The method of an object shows how it is called: ``split_text`` (LangChain), ``get_nodes_from_documents``
   (LlamaIndex), or ``chunk`` (chonkie, and chunkers of users). An object without such a method is refused, so
   that a name can't call an arbitrary function with the text of a document.
3. The offsets of LangChain and LlamaIndex are not used, because they are found by a search, too, which takes
   the next equal text, even if it overlaps the previous chunk, or assumes an overlap in characters.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any, NamedTuple, cast

from branchrank.core.errors import MissingDependencyError, Remedy, UsageError, first_line, or_else
from branchrank.documents.chunking import CountTokens, token_slices, tokens_within


class ChunkSize(NamedTuple):
    """The size of a chunk and the overlap of consecutive chunks, in tokens as ``count`` counts them."""

    tokens: int
    overlap: int
    count: CountTokens


class Piece(NamedTuple):
    """A chunk's text, and the offset in the document at which it starts, if the chunker knows it."""

    text: str
    start_index: int | None = None


class _Unit(NamedTuple):
    start: int
    end: int
    tokens: int


#: Each pattern matches what ends a paragraph, a line, a sentence or a word.
_LEVELS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+|(?<=[。！？])|\n\s*\n"),
    re.compile(r"\s+"),
)
_PARAGRAPHS, _, _SENTENCES, _WORDS = range(4)


@dataclass(frozen=True)
class TextChunker:
    """The chunker ``window``, ``sentences``, ``recursive`` or ``document``."""

    name: str
    size: ChunkSize

    def chunk(self, text: str) -> Iterator[Piece]:
        """Yield the chunks of a text in order, without the blank space around them."""
        for start, end in self._spans(text):
            part = text[start:end]
            if stripped := part.strip():
                yield Piece(stripped, start + len(part) - len(part.lstrip()))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        if self.name == "document":
            yield 0, len(text)
        elif self.name == "recursive":
            yield from self._divided(text, 0, len(text), _PARAGRAPHS)
        else:
            level = _SENTENCES if self.name == "sentences" else _WORDS
            yield from self._packed(self._units(text, 0, len(text), level))

    def _divided(self, text: str, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
        units: list[_Unit] = []
        for first, last in _cuts(text, start, end, level):
            tokens = tokens_within(text[first:last], self.size.tokens, self.size.count)
            if tokens is not None:
                units.append(_Unit(first, last, tokens))
                continue
            yield from self._packed(units)
            units.clear()
            if level == _WORDS:
                yield from self._packed(self._characters(text, first, last))
            else:
                yield from self._divided(text, first, last, level + 1)
        yield from self._packed(units)

    def _units(self, text: str, start: int, end: int, level: int) -> Iterator[_Unit]:
        """Yield units that fit into a chunk."""
        for first, last in _cuts(text, start, end, level):
            tokens = tokens_within(text[first:last], self.size.tokens, self.size.count)
            if tokens is not None:
                yield _Unit(first, last, tokens)
            elif level == _WORDS:
                yield from self._characters(text, first, last)
            else:
                yield from self._units(text, first, last, _WORDS)

    def _characters(self, text: str, start: int, end: int) -> Iterator[_Unit]:
        # A character has at most three tokens. Parts of a word have other tokens than the word, so that only
        # this bound can be added up.
        step = max(1, self.size.tokens // 3)
        for first in range(start, end, step):
            last = min(first + step, end)
            yield _Unit(first, last, 3 * (last - first))

    def _packed(self, units: Iterable[_Unit]) -> Iterator[tuple[int, int]]:
        held: deque[_Unit] = deque()
        total = 0
        for unit in units:
            if held and total + unit.tokens > self.size.tokens:
                yield held[0].start, held[-1].end
                while held and (total > self.size.overlap or total + unit.tokens > self.size.tokens):
                    total -= held.popleft().tokens
            held.append(unit)
            total += unit.tokens
        if held:
            yield held[0].start, held[-1].end


def _cuts(text: str, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last offset of each unit of a level. The units cover the text."""
    first = start
    for found in _LEVELS[level].finditer(text, start, end):
        if found.end() > first:
            yield first, found.end()
            first = found.end()
    if first < end:
        yield first, end


class _Package(NamedTuple):
    """A package with chunkers: its module, its distribution, and the method of its chunkers."""

    module: str
    distribution: str
    method: str


#: The packages, by the prefix of their chunkers' names, which is also the name of the extra.
PACKAGES = {
    "langchain": _Package("langchain_text_splitters", "langchain-text-splitters", "split_text"),
    "llamaindex": _Package("llama_index.core.node_parser", "llama-index-core", "get_nodes_from_documents"),
    "chonkie": _Package("chonkie", "chonkie", "chunk"),
}
_SIZES = ("chunk_size", "chunk_tokens", "chunk_overlap")


def package_version(prefix: str) -> str:
    """Return the name and the version of a package, or an empty string if it is not installed."""
    name = PACKAGES[prefix].distribution
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return ""


def named_class(prefix: str, name: str) -> type:
    """Return the class of the chunker ``prefix:name``.

    Raises :class:`MissingDependencyError` if the package is not installed, and :class:`UsageError` if it has
    no such chunker.
    """
    package = PACKAGES[prefix]
    try:
        module = importlib.import_module(package.module)
    except ModuleNotFoundError as error:
        purpose = f"the chunker {prefix}:{name}"
        raise MissingDependencyError(package.distribution, purpose=purpose, extra=prefix) from error
    found = getattr(module, name, None)
    if not _is_chunker(found, package.method):
        names = [each for each in dir(module) if _is_chunker(getattr(module, each), package.method)]
        raise UsageError(
            f"{package.module} has no chunker {name!r}{or_else(name, names)}",
            remedy=Remedy("correct {}", "--chunker"),
        )
    return cast("type", found)


def _is_chunker(found: object, method: str) -> bool:
    return inspect.isclass(found) and callable(getattr(found, method, None))


class Adapted:
    """A chunker whose method has another name. ``call`` returns what that method returns for a text."""

    def __init__(self, call: Callable[[str], Iterable[Any]]) -> None:
        self._call = call

    def chunk(self, text: str) -> Iterator[Piece]:
        """Yield the chunks of a text."""
        for part in self._call(text) if text.strip() else ():
            if isinstance(part, str):
                yield Piece(part)
            elif hasattr(part, "page_content"):
                yield Piece(part.page_content)
            elif hasattr(part, "get_content"):
                yield Piece(part.get_content())
            else:
                yield Piece(part.text, getattr(part, "start_index", None))


def adapted(found: Any, name: str, size: ChunkSize) -> Adapted:
    """Return the chunker for an object, or for an instance of a class. ``name`` is its name in messages.

    Raises :class:`UsageError` if the class can't be instantiated, or if the object is not a chunker.
    """
    if inspect.isclass(found):
        found = _made(found, name, size)
    for package in PACKAGES.values():
        method = getattr(found, package.method, None)
        if callable(method):
            return Adapted(partial(_nodes, method) if package is PACKAGES["llamaindex"] else method)
    methods = " or ".join(package.method for package in PACKAGES.values())
    raise UsageError(
        f"the chunker {name} is a {type(found).__name__} without a method {methods}",
        remedy="name an object that has a method chunk(text), which returns the texts of the chunks",
    )


def _nodes(method: Callable[[list[Any]], Iterable[Any]], text: str) -> Iterable[Any]:
    from llama_index.core import Document

    return method([Document(text=text)])


def _made(found: type, name: str, size: ChunkSize) -> Any:
    taken = _parameters(found)
    offered: Mapping[str, Callable[[], object]] = {
        "chunk_size": lambda: size.tokens,
        "chunk_tokens": lambda: size.tokens,
        "chunk_overlap": lambda: size.overlap,
        "length_function": lambda: size.count,
        "count_tokens": lambda: size.count,
        # LlamaIndex only takes the length of the list of tokens.
        "tokenizer": lambda: (
            _chonkie_tokenizer() if name.startswith("chonkie:") else lambda text: range(size.count(text))
        ),
    }
    measured = taken - set(_SIZES)
    wanted = {key for key in offered if key in taken and (key not in _SIZES or measured & offered.keys())}
    try:
        return found(**{key: offered[key]() for key in sorted(wanted)})
    except Exception as error:  # Another package's class can raise any exception.
        raise UsageError(
            f"the chunker {name} can't be made: {first_line(error)}",
            remedy=Remedy(
                "make it in a module with its arguments, and pass {}", "--chunker", "MODULE:OBJECT"
            ),
        ) from error


def _parameters(found: type) -> set[str]:
    """Return the names of a class's parameters, including those that it passes on to its base classes."""
    names: set[str] = set()
    for each in found.__mro__:
        if "__init__" in vars(each):
            parameters = inspect.signature(vars(each)["__init__"]).parameters.values()
            names |= {parameter.name for parameter in parameters}
            if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
                break
    return names


def _chonkie_tokenizer() -> Any:
    """Return a tokenizer whose ``decode`` restores the text, which the model's tokenizer does not."""
    import chonkie

    class Tokens(chonkie.Tokenizer):  # type: ignore[misc]
        def __repr__(self) -> str:
            return "BranchRank's tokens"

        tokenize = staticmethod(token_slices)

        def encode(self, text: str) -> list[int]:
            ids = []
            for token in token_slices(text):
                number = self.token2id[token]
                if number >= len(self.vocab):
                    self.vocab.append(token)
                ids.append(number)
            return ids

        def decode(self, tokens: list[int]) -> str:
            return "".join(self.vocab[token] for token in tokens)

    return Tokens()
