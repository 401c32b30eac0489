"""Run CodeRankEmbed and other published NomicBert models in ONNX Runtime, without PyTorch.

1. A supported model is a NomicBert model in the published format
   (:mod:`branchrank.index.embedders.nomic_bert`) with the activation function SwiGLU and float32 weights in
   one file. The sentence-transformers modules of a supported model are a transformer, a pooling module
   (first token or mean) and, optionally, a normalization module. All other models are run by
   :mod:`branchrank.index.embedders.sentence_transformers`.
2. The vectors differ from those of sentence-transformers only by rounding errors (1e-6 in tests). With
   float32 precision, :class:`NomicEmbedder` and ``SentenceTransformersEmbedder`` have the same identity, so
   an index built with one embedder can be searched with the other embedder.
3. The ONNX graph has rotary position embeddings (RoFormer, 2021), without interleaving. Coordinate ``i`` of
   the first half of an attention head and coordinate ``i`` of its second half are rotated by an angle that
   grows with the position of the token. Queries and keys are rotated in one operation. The tables of cosines
   and sines are multiplied by ``head ** -0.25``, where ``head`` is the size of an attention head. The product
   of a query and a key is therefore already scaled by ``head ** -0.5``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from branchrank.core.errors import ModelError
from branchrank.core.execution import thread_count
from branchrank.core.io.files import NOT_JSON
from branchrank.core.records import Record
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders.hub import (
    REMEDY,
    card_languages,
    files_digest,
    folder_revision,
    modules_of,
    read_json,
)
from branchrank.index.embedders.nomic_bert import native_config
from branchrank.index.embedders.onnx_encoder import Graph, GraphEmbedder, layers, map_weights, read_tokenizer
from branchrank.index.embedders.protocol import EmbedderIdentity
from branchrank.index.embedders.sentence_transformers import prefixes_of

_WEIGHTS = "model.safetensors"
_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_POOLING_MODES: dict[str, Pooling] = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}


class _Prompts(Record, frozen=True, kw_only=True):
    """The fields of ``config_sentence_transformers.json``."""

    prompts: dict[str, str | None] = msgspec.field(default_factory=dict)


class _Reading(Record, frozen=True, kw_only=True):
    """The fields of ``sentence_bert_config.json``."""

    max_seq_length: int | None = None
    do_lower_case: bool = False


class NomicEmbedder(GraphEmbedder):
    """An embedder that runs the NomicBert model ``settings.embedder`` from the files in ``folder``.

    :func:`is_nomic` must return true for ``folder``. Raises :class:`ModelError` if the files can't be read.
    """

    def __init__(self, folder: Path, settings: IndexSettings) -> None:
        model = settings.embedder
        supported = _supported(folder)
        assert supported is not None
        config, pooling, max_tokens = supported
        try:
            weights = map_weights(np.memmap(folder / _WEIGHTS, mode="r", dtype=np.uint8))
        except (OSError, ValueError, *NOT_JSON) as error:
            raise ModelError(
                f"the weights in {folder / _WEIGHTS} can't be read: {error}", remedy=REMEDY
            ) from error
        own = read_json(folder / "config_sentence_transformers.json", _Prompts, default=_Prompts())
        prefixes = prefixes_of(own.prompts, settings)
        identity = EmbedderIdentity(
            name="sentence-transformers",
            model=model,
            revision=folder_revision(folder, settings.embedding_revision),
            dtype=settings.embedder_precision,
            dimension=config["hidden_size"],
            max_tokens=max_tokens,
            query_prefix=prefixes.query,
            document_prefix=prefixes.document,
            weights_digest=files_digest(folder, "*.safetensors"),
        )
        self.languages = card_languages(folder)
        tokenizer = read_tokenizer(folder, max_tokens, model=model, remedy=REMEDY)
        graph = nomic_graph(config, pooling, max_tokens)
        super().__init__(identity, tokenizer, graph, weights, thread_count())


def is_nomic(folder: Path) -> bool:
    """Return whether :class:`NomicEmbedder` can run the model in ``folder``.

    Raises :class:`ModelError` for a published NomicBert model that has unsupported settings or weights.
    """
    return _supported(folder) is not None


def _supported(folder: Path) -> tuple[dict[str, Any], Pooling, int] | None:
    """Return a model's configuration, pooling method and maximum number of tokens, if it is supported."""
    config = native_config(folder)
    modules = modules_of(folder)
    kinds = [module.type for module in modules]
    if (
        config.get("hidden_act") != "silu"
        or [kind.rpartition(".")[2] for kind in kinds] not in _MODULES
        or not all(kind.startswith("sentence_transformers.") for kind in kinds)
        or modules[0].path
        or [path.name for path in folder.glob("*.safetensors")] != [_WEIGHTS]
        or not (folder / "tokenizer.json").is_file()
        or not _is_float32(folder / _WEIGHTS)
    ):
        return None
    pooling = read_json(folder / modules[1].path / "config.json", dict[str, Any], default={})
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value]
    reading = read_json(folder / "sentence_bert_config.json", _Reading, default=_Reading())
    if (
        pooling.get("include_prompt", True) is not True
        or len(modes) != 1
        or modes[0] not in _POOLING_MODES
        or reading.do_lower_case
        or (reading.max_seq_length or 0) < 3
    ):
        return None
    return config, _POOLING_MODES[modes[0]], reading.max_seq_length


def _is_float32(path: Path) -> bool:
    from safetensors import safe_open

    with safe_open(path, framework="np") as weights:
        return all(weights.get_slice(name).get_dtype() == "F32" for name in weights.keys())  # noqa: SIM118


Pooling = Literal["cls", "mean"]

_HEAD = """
<ir_version: 9, opset_import: ["": 20]>
nomic_bert (int64[tokens] ids) => (float[size] pooled, float[tokens, size] rows) {{
  length = Shape(ids)
  word = Gather(embeddings_word_embeddings_weight, ids)
  kind = Slice(embeddings_token_type_embeddings_weight, zero, one)
  summed = Add(word, kind)
  x0 = LayerNormalization<epsilon = {epsilon}>(summed, emb_ln_weight, emb_ln_bias)
  cos = Slice(cosines, zero, length)
  sin = Slice(sines, zero, length)
"""

_LAYER = """
  qkv{n} = Gemm<transB = 1>(x{n}, {w}_attn_Wqkv_weight)
  heads{n} = Reshape(qkv{n}, split)
  qk{n}, v{n} = Split<axis = 1>(heads{n}, parts)
  first{n}, second{n} = Split<axis = 2, num_outputs = 2>(qk{n})
  first_cos{n} = Mul(first{n}, cos)
  second_sin{n} = Mul(second{n}, sin)
  second_cos{n} = Mul(second{n}, cos)
  first_sin{n} = Mul(first{n}, sin)
  turned_first{n} = Sub(first_cos{n}, second_sin{n})
  turned_second{n} = Add(second_cos{n}, first_sin{n})
  turned{n} = Concat<axis = 2>(turned_first{n}, turned_second{n})
  q{n}, k{n} = Split<axis = 1, num_outputs = 2>(turned{n})
  qh{n} = Transpose<perm = [1, 0, 2]>(q{n})
  kh{n} = Transpose<perm = [1, 2, 0]>(k{n})
  vh{n} = Transpose<perm = [1, 0, 2]>(v{n})
  product{n} = MatMul(qh{n}, kh{n})
  attention{n} = Softmax<axis = -1>(product{n})
  mixed{n} = MatMul(attention{n}, vh{n})
  rows{n} = Transpose<perm = [1, 0, 2]>(mixed{n})
  joined{n} = Reshape(rows{n}, join)
  o{n} = Gemm<transB = 1>(joined{n}, {w}_attn_out_proj_weight)
  os{n} = Add(o{n}, x{n})
  y{n} = LayerNormalization<epsilon = {epsilon}>(os{n}, {w}_norm1_weight, {w}_norm1_bias)
  up{n} = Gemm<transB = 1>(y{n}, {w}_mlp_fc11_weight)
  gate{n} = Gemm<transB = 1>(y{n}, {w}_mlp_fc12_weight)
  share{n} = Sigmoid(gate{n})
  active{n} = Mul(gate{n}, share{n})
  gated{n} = Mul(up{n}, active{n})
  narrow{n} = Gemm<transB = 1>(gated{n}, {w}_mlp_fc2_weight)
  ns{n} = Add(narrow{n}, y{n})
  {next} = LayerNormalization<epsilon = {epsilon}>(ns{n}, {w}_norm2_weight, {w}_norm2_bias)
"""

_POOLING = {
    "cls": "  pooled = Gather(rows, first)",
    "mean": "  pooled = ReduceMean<keepdims = 0>(rows, zero)",
}


def nomic_graph(config: Mapping[str, Any], pooling: Pooling, max_tokens: int) -> Graph:
    """Return the ONNX graph of a NomicBert encoder for texts of at most ``max_tokens`` tokens.

    ``config`` is the configuration from :func:`branchrank.index.embedders.nomic_bert.native_config`.
    """
    size, heads = config["hidden_size"], config["num_attention_heads"]
    head = size // heads
    epsilon = config["layer_norm_eps"]
    frequencies = config["rope_parameters"]["rope_theta"] ** -(np.arange(0, head, 2) / head)
    angles = np.outer(np.arange(max_tokens), frequencies)[:, np.newaxis]
    scale = head**-0.25  # Queries and keys are both scaled, so their products are scaled by ``head ** -0.5``.
    return Graph(
        _HEAD.format(epsilon=epsilon)
        + layers(_LAYER, config["num_hidden_layers"], "encoder_layers", epsilon)
        + _POOLING[pooling]
        + "\n}",
        {
            "zero": np.array([0]),
            "one": np.array([1]),
            "first": np.array(0),
            "split": np.array([-1, 3 * heads, head]),
            "parts": np.array([2 * heads, heads]),
            "join": np.array([-1, size]),
            "cosines": (scale * np.cos(angles)).astype(np.float32),
            "sines": (scale * np.sin(angles)).astype(np.float32),
        },
    )
