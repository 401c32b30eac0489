"""Convert the configuration of published NomicBert checkpoints to the transformers library's format.

The published ``config.json`` of nomic-ai/nomic-bert-2048, CodeRankEmbed and nomic-embed-text uses GPT-2's
field names, and has extra fields for variants of the NomicBert architecture. The NomicBert class in
transformers uses BERT's field names, and supports only the architecture of the published models.

1. Every published field that affects the vectors is mapped to its name in transformers. A missing field is an
   error, because its default value in the published configuration class differs from that in transformers.
2. The size of the vocabulary is rounded up to a multiple of ``pad_vocab_size_multiple``, and the width of the
   gated MLP is rounded up to a multiple of 256, as in the published model code.
3. A value that transformers does not support is an error, and the message contains the name of the field.
4. The checkpoint must contain exactly the weights of the NomicBert architecture, because transformers would
   fill a missing weight with random numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from branchrank.core.errors import ModelError
from branchrank.core.records import Record
from branchrank.index.embedders.hub import REMEDY, read_json

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
