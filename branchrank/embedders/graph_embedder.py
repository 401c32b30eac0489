"""An embedder that runs an ONNX graph.

Each text is tokenized, truncated and encoded separately. Several threads encode texts at the same time,
starting with the longest texts. The vectors are returned in the order of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from branchrank.embedders.onnx_encoder import OnnxEncoder
from branchrank.embedders.protocol import DocumentVectors, EmbedderIdentity, Vectors, unit_rows
from branchrank.errors import ModelError
from branchrank.io.printable import encodable
from branchrank.io.progress import Progress, no_progress

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Made = TypeVar("Made")


class GraphEmbedder:
    """An embedder that tokenizes and encodes texts on ``threads`` threads.

    ``tokenizer`` must truncate long texts and must not pad short texts.
    """

    def __init__(
        self, identity: EmbedderIdentity, tokenizer: Tokenizer, encoder: OnnxEncoder, threads: int
    ) -> None:
        self.identity = identity
        self._tokenizer = tokenizer
        self._encoder = encoder
        self._threads = threads

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """Return the unit vectors of texts, one row per text."""
        rows = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        for number, row in self._each(self._pooled, self._documents(texts), progress):
            rows[number] = row
        return self._unit(rows)

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query, scaled to unit length."""
        row: Vectors = self._unit(self._pooled(self.identity.query_prefix + text)[np.newaxis])[0]
        return row

    def embed_documents_and_tokens(
        self, texts: Sequence[str], progress: Progress = no_progress
    ) -> DocumentVectors:
        """Return a unit vector for each text and for each of its tokens.

        The tokens include special tokens and the tokens of the prefix.
        """
        vectors = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        tokens: list[Vectors] = [np.empty(0, dtype=np.float32)] * len(texts)
        for number, (row, rows) in self._each(self._pooled_and_rows, self._documents(texts), progress):
            vectors[number], tokens[number] = row, self._unit(rows)
        return DocumentVectors(self._unit(vectors), tokens)

    def embed_query_tokens(self, text: str) -> Vectors:
        """Return the unit vectors of a query's tokens, without special tokens and without the prefix."""
        prefix = self.identity.query_prefix
        ids = self._ids(prefix + text)
        _, rows = self._encoder.pooled_and_rows(ids)
        own = np.flatnonzero(~np.isin(ids, self._special()))
        before = len(self._tokenizer.encode(prefix, add_special_tokens=False).ids)
        kept: Vectors = self._unit(rows)[own[before:]]
        return kept

    def _documents(self, texts: Sequence[str]) -> list[str]:
        return [self.identity.document_prefix + text for text in texts]

    def _special(self) -> list[int]:
        decoder = self._tokenizer.get_added_tokens_decoder()
        return [number for number, token in decoder.items() if token.special]

    def _each(
        self, work: Callable[[str], Made], texts: Sequence[str], progress: Progress
    ) -> Iterator[tuple[int, Made]]:
        """Yield each text's position and its result from ``work``, starting with the longest text."""
        longest_first = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        with ThreadPoolExecutor(self._threads, thread_name_prefix="embed") as pool:
            results = pool.map(lambda number: work(texts[number]), longest_first)
            for done, (number, result) in enumerate(zip(longest_first, results, strict=True), start=1):
                yield number, result
                progress("embed", done, len(texts))

    def _pooled(self, text: str) -> Vectors:
        return self._encoder.pooled(self._ids(text))

    def _pooled_and_rows(self, text: str) -> tuple[Vectors, Vectors]:
        return self._encoder.pooled_and_rows(self._ids(text))

    def _ids(self, text: str) -> NDArray[np.int64]:
        return np.array(self._tokenizer.encode(encodable(text)).ids, dtype=np.int64)

    def _unit(self, rows: Vectors) -> Vectors:
        return unit_rows(rows, origin=self.identity.model)


def read_tokenizer(folder: Path, max_tokens: int, *, model: str, remedy: str) -> Tokenizer:
    """Load the tokenizer in ``folder``, and make it truncate texts to ``max_tokens`` tokens.

    ``model`` is the model's name in error messages. Raises :class:`ModelError` if the tokenizer can't be
    read.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The tokenizers library raises plain ``Exception``.
        raise ModelError(f"the tokenizer {path} of {model} can't be read: {error}", remedy=remedy) from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer
