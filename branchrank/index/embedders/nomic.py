"""Read the configuration of published NomicBert checkpoints, and run them in ONNX Runtime, without PyTorch.

The published ``config.json`` of nomic-ai/nomic-bert-2048, CodeRankEmbed and nomic-embed-text uses GPT-2's
field names, and has extra fields for variants of the architecture. The NomicBert class in transformers uses
BERT's field names, and supports only the architecture of the published models. :func:`native_config` maps
every published field that affects the vectors to its name in transformers. A missing field, a value that
transformers does not support, and a missing weight are errors, because transformers would use other defaults
and random weights.

1. A supported model has the activation function SwiGLU and float32 weights in one file. Its
   sentence-transformers modules are a transformer, a pooling module (first token or mean) and, optionally, a
   normalization module. All other models are run by :mod:`branchrank.index.embedders.sentence_transformers`.
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
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

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
from branchrank.index.embedders.onnx_encoder import Graph, GraphEmbedder, layers, map_weights, read_tokenizer
from branchrank.index.embedders.protocol import EmbedderIdentity, prefixes_of

_WEIGHTS = "model.safetensors"
_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_MLP_MULTIPLE = 256
#: Maps each published name of an activation function to the name of its gate function in transformers.
_GATES = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}
_LAYER_WEIGHTS = (
    "attn.Wqkv.weight",
    "attn.out_proj.weight",
    "mlp.fc11.weight",
    "mlp.fc12.weight",
    "mlp.fc2.weight",
    "norm1.weight",
    "norm1.bias",
    "norm2.weight",
    "norm2.bias",
)
_EMBEDDING_WEIGHTS = (
    "embeddings.word_embeddings.weight",
    "embeddings.token_type_embeddings.weight",
    "emb_ln.weight",
    "emb_ln.bias",
)
#: Weights whose names start with these prefixes are not used by an embedding model.
_UNUSED = ("pooler.", "cls.")

Count = Annotated[int, Meta(ge=1)]


class PublishedConfig(Record, frozen=True, kw_only=True):
    """The fields of a published ``config.json`` that transformers supports."""

    n_embd: Count
    n_layer: Count
    n_head: Count
    n_inner: int | None = None
    n_positions: Count
    vocab_size: Count
    pad_vocab_size_multiple: Count
    type_vocab_size: Count
    layer_norm_epsilon: float
    activation_function: Literal["swiglu", "geglu", "glu"]
    rotary_emb_base: float


#: Maps each field that has no equivalent in transformers, and does not change the weights' names, to its
#: only supported value. A missing field must have an empty supported value.
_FIXED: dict[str, Any] = {
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "rotary_head_dim": False,
    "prenorm": False,
    "parallel_block": False,
    "causal": False,
}


def native_config(folder: Path) -> dict[str, Any]:
    """Return the transformers configuration of a published NomicBert model, or ``{}`` for any other model.

    Raises :class:`ModelError` if a field has an unsupported value or if the checkpoint does not contain
    exactly the weights of the NomicBert architecture.
    """
    path = folder / "config.json"
    fields = read_json(path, dict[str, Any], default={})
    if fields.get("model_type") != "nomic_bert" or "n_embd" not in fields:
        return {}
    published = read_json(path, PublishedConfig, default=None)
    _check(path, fields)
    _check_weights(folder, published)
    inner = published.n_inner if published.n_inner is not None else int(8 * published.n_embd / 3)
    return {
        "vocab_size": _multiple(published.vocab_size, published.pad_vocab_size_multiple),
        "hidden_size": published.n_embd,
        "num_hidden_layers": published.n_layer,
        "num_attention_heads": published.n_head,
        "head_dim": published.n_embd // published.n_head,
        "intermediate_size": _multiple(inner, _MLP_MULTIPLE),
        "hidden_act": _GATES[published.activation_function],
        "max_position_embeddings": published.n_positions,
        "type_vocab_size": published.type_vocab_size,
        "layer_norm_eps": published.layer_norm_epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": float(published.rotary_emb_base)},
    }


def _multiple(size: int, of: int) -> int:
    return -(-size // of) * of


def _check(path: Path, fields: dict[str, Any]) -> None:
    """Raise :class:`ModelError` for the first field with a value that transformers does not support."""
    for name, only in _FIXED.items():
        value = fields.get(name)
        if value != only and (only or value is not None):
            raise ModelError(
                f"{path}: {name} is {_shown(value)}, but NomicBert in transformers supports only "
                f"{_shown(only)}, and code shipped with a model is never run",
                remedy=REMEDY,
            )


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _check_weights(folder: Path, published: PublishedConfig) -> None:
    from safetensors import SafetensorError, safe_open

    found: set[str] = set()
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="np") as weights:
                found.update(weights.keys())
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{path} can't be read: {error}", remedy=REMEDY) from error
    layers = (f"encoder.layers.{n}.{name}" for n in range(published.n_layer) for name in _LAYER_WEIGHTS)
    expected = {*_EMBEDDING_WEIGHTS, *layers}
    found = {name for name in found if not name.startswith(_UNUSED)}
    if missing := sorted(expected - found):
        raise ModelError(f"the weights in {folder} do not contain {missing[0]!r}", remedy=REMEDY)
    if foreign := sorted(found - expected):
        raise ModelError(
            f"the weights in {folder} contain {foreign[0]!r}, which NomicBert in transformers does not have",
            remedy=REMEDY,
        )


class _Prompts(Record, frozen=True, kw_only=True):
    """The fields of ``config_sentence_transformers.json``."""

    prompts: dict[str, str | None] = msgspec.field(default_factory=dict)


class _Reading(Record, frozen=True, kw_only=True):
    """The fields of ``sentence_bert_config.json``."""

    max_seq_length: int | None = None
    do_lower_case: bool = False


class NomicEmbedder(GraphEmbedder):
    """An embedder that runs the NomicBert model ``settings.embedder`` from the files in ``folder``.

    Raises :class:`ModelError` if the files can't be read.
    """

    def __init__(self, folder: Path, found: SupportedModel, settings: IndexSettings) -> None:
        model = settings.embedder
        config, pooling, max_tokens = found
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


#: A model's configuration, the name of its pooling method, and its maximum number of tokens.
SupportedModel = tuple[dict[str, Any], str, int]


def supported_model(folder: Path) -> SupportedModel | None:
    """Return what :class:`NomicEmbedder` needs to run a model, or ``None`` if it can't run the model.

    Raises :class:`ModelError` for a published NomicBert model that has unsupported settings or weights.
    """
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
        or modes[0] not in _POOLING
        or reading.do_lower_case
        or (reading.max_seq_length or 0) < 3
    ):
        return None
    return config, modes[0], reading.max_seq_length


def _is_float32(path: Path) -> bool:
    from safetensors import safe_open

    with safe_open(path, framework="np") as weights:
        return all(weights.get_slice(name).get_dtype() == "F32" for name in weights.keys())  # noqa: SIM118


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
    "pooling_mode_cls_token": "  pooled = Gather(rows, first)",
    "pooling_mode_mean_tokens": "  pooled = ReduceMean<keepdims = 0>(rows, zero)",
}


def nomic_graph(config: Mapping[str, Any], pooling: str, max_tokens: int) -> Graph:
    """Return the ONNX graph of a NomicBert encoder for texts of at most ``max_tokens`` tokens.

    ``config`` is the configuration from :func:`native_config`.
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
