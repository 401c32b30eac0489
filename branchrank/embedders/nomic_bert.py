"""Convert the configuration of published NomicBert checkpoints to the transformers library's format.

The published ``config.json`` of nomic-ai/nomic-bert-2048, CodeRankEmbed and nomic-embed-text uses GPT-2's
field names, and has extra fields for variants of the NomicBert architecture. The NomicBert class in
transformers uses BERT's field names, and supports only the architecture of the published models.

1. Every published field that affects the vectors is mapped to its name in transformers. A missing field gets
   its default value from the published configuration class, not from transformers.
2. The size of the vocabulary is rounded up to a multiple of ``pad_vocab_size_multiple``, and the width of the
   gated MLP is rounded up to a multiple of 256, as in the published model code.
3. A value that transformers does not support is an error, and the message contains the name of the field.
4. The checkpoint must contain exactly the weights of the NomicBert architecture, because transformers would
   fill a missing weight with random numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from branchrank.errors import ModelError
from branchrank.io.files import NOT_JSON
from branchrank.records import Record

_REMEDY = (
    "choose another model, such as --embedder all-MiniLM-L6-v2, which needs no download from a model hub"
)
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


class PublishedConfig(Record, frozen=True, kw_only=True):
    """The fields of a published ``config.json`` that transformers supports, with the published defaults."""

    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    n_positions: int = 1024
    vocab_size: int = 50257
    pad_vocab_size_multiple: int = 1
    type_vocab_size: int = 2
    layer_norm_epsilon: float = 1e-5
    activation_function: str = "gelu_new"
    rotary_emb_base: float = 1000.0
    num_heads_kv: int | None = None


#: Maps each field that has no equivalent in transformers to its supported value and its published default.
_FIXED: dict[str, tuple[Any, Any]] = {
    "rotary_emb_fraction": (1.0, 0.0),
    "rotary_emb_interleaved": (False, False),
    "rotary_emb_scale_base": (None, None),
    "rotary_scaling_factor": (None, None),
    "rotary_head_dim": (False, False),
    "qkv_proj_bias": (False, True),
    "mlp_fc1_bias": (False, True),
    "mlp_fc2_bias": (False, True),
    "norm_mlp": (False, False),
    "prenorm": (False, False),
    "parallel_block": (False, False),
    "causal": (False, False),
    "use_rms_norm": (False, False),
    "num_experts": (0, 0),
}


def native_config(folder: Path) -> dict[str, Any]:
    """Return the transformers configuration of a published NomicBert model, or ``{}`` for any other model.

    Raises :class:`ModelError` if a field has an unsupported value or if the checkpoint does not contain
    exactly the weights of the NomicBert architecture.
    """
    path = folder / "config.json"
    try:
        content = path.read_bytes()
        fields = msgspec.json.decode(content, type=dict[str, Any])
        if fields.get("model_type") != "nomic_bert" or "n_embd" not in fields:
            return {}
        published = msgspec.json.decode(content, type=PublishedConfig)
    except FileNotFoundError:
        return {}
    except (OSError, *NOT_JSON) as error:
        raise ModelError(f"{path} can't be read: {error}", remedy=_REMEDY) from error
    _check(path, published, fields)
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


def _check(path: Path, published: PublishedConfig, fields: dict[str, Any]) -> None:
    """Raise :class:`ModelError` for the first field with a value that transformers does not support."""
    values = {**{name: default for name, (_, default) in _FIXED.items()}, **msgspec.to_builtins(published)}
    values |= {name: fields[name] for name in _FIXED if name in fields}
    heads, size = published.n_head, published.n_embd
    allowed = {
        name: f"only {_shown(only)}"
        for name, (only, _) in _FIXED.items()
        if values[name] != only and not (only is False and values[name] is None)
    }
    if published.activation_function not in _GATES:
        allowed["activation_function"] = f"only {', '.join(_GATES)}"
    if published.num_heads_kv not in (None, heads):
        allowed["num_heads_kv"] = f"only n_head, {heads}"
    if not (heads > 0 < size) or size % (2 * heads):
        allowed["n_embd"] = "only multiples of 2 * n_head"
    for name in ("n_layer", "type_vocab_size", "n_positions", "vocab_size", "pad_vocab_size_multiple"):
        if values[name] < 1:
            allowed[name] = "only 1 and more"
    for name, supported in allowed.items():
        value = _shown(values[name]) + ("" if name in fields else ", its default")
        raise ModelError(
            f"{path}: {name} is {value}, but NomicBert in transformers supports {supported}, "
            "and code shipped with a model is never run",
            remedy=_REMEDY,
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
            raise ModelError(f"{path} can't be read: {error}", remedy=_REMEDY) from error
    layers = (f"encoder.layers.{n}.{name}" for n in range(published.n_layer) for name in _LAYER_WEIGHTS)
    expected = {*_EMBEDDING_WEIGHTS, *layers}
    found = {name for name in found if not name.startswith(_UNUSED)}
    if missing := sorted(expected - found):
        raise ModelError(f"the weights in {folder} do not contain {missing[0]!r}", remedy=_REMEDY)
    if foreign := sorted(found - expected):
        raise ModelError(
            f"the weights in {folder} contain {foreign[0]!r}, which NomicBert in transformers does not have",
            remedy=_REMEDY,
        )
