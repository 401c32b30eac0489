"""CodeRankEmbed in its published format, against a forward pass written from the published architecture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.nomic_checkpoints import (
    PREFIX,
    PUBLISHED,
    WORDS,
    published_weights,
    save_weights,
    write_checkpoint,
)
from support.tokenizer import SPECIAL

from branchrank.embedders.sentence_transformers import SentenceTransformersEmbedder
from branchrank.errors import ModelError

TEXTS = ["a route", "how to configure a route section " * 4, "text", "", "tea unknown tea"]
#: float32 against float64, on unit vectors.
TOLERANCE = 2e-6


def token_ids(text: str) -> list[int]:
    """The ids of lower-cased words, colons apart, between [CLS] and [SEP], at most 40 in all."""
    numbers = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    words = text.lower().replace(":", " : ").split()
    return [*[2, *(numbers.get(word, 1) for word in words)][:39], 3]


def published_forward(text: str, gate: str = "swiglu", pooling: str = "cls") -> NDArray[np.float64]:
    """The published NomicBert in float64, one text, step by step: post-norm blocks, rotary, gated MLP."""
    weights = {name: array.astype(np.float64) for name, array in published_weights().items()}
    heads = PUBLISHED["n_head"]
    width = PUBLISHED["n_embd"] // heads

    def norm(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        centered = x - x.mean(axis=-1, keepdims=True)
        scaled = centered / np.sqrt(
            (centered**2).mean(axis=-1, keepdims=True) + PUBLISHED["layer_norm_epsilon"]
        )
        result: NDArray[np.float64] = scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return result

    def activated(x: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.special import erf, expit

        return {"swiglu": x * expit(x), "geglu": x * (1 + erf(x / np.sqrt(2))) / 2, "glu": expit(x)}[gate]

    ids = token_ids(text)
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "emb_ln")
    frequencies = 1 / PUBLISHED["rotary_emb_base"] ** (np.arange(0, width, 2) / width)
    angles = np.outer(np.arange(len(ids)), frequencies)
    cos, sin = (np.concatenate([f(angles), f(angles)], axis=1)[:, None] for f in (np.cos, np.sin))

    def rotated(x: NDArray[np.float64]) -> NDArray[np.float64]:
        first, second = np.split(x, 2, axis=-1)
        turned: NDArray[np.float64] = x * cos + np.concatenate([-second, first], axis=-1) * sin
        return turned

    for n in range(PUBLISHED["n_layer"]):
        layer = f"encoder.layers.{n}"
        qkv = (x @ weights[f"{layer}.attn.Wqkv.weight"].T).reshape(len(ids), 3, heads, width)
        query, key, value = rotated(qkv[:, 0]), rotated(qkv[:, 1]), qkv[:, 2]
        scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(width)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attention = scores / scores.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", attention, value).reshape(len(ids), -1)
        x = norm(x + mixed @ weights[f"{layer}.attn.out_proj.weight"].T, f"{layer}.norm1")
        up, gated = (x @ weights[f"{layer}.mlp.{name}.weight"].T for name in ("fc11", "fc12"))
        x = norm(x + (up * activated(gated)) @ weights[f"{layer}.mlp.fc2.weight"].T, f"{layer}.norm2")
    pooled: NDArray[np.float64] = x[0] if pooling == "cls" else x.mean(axis=0)
    return pooled / np.linalg.norm(pooled)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("published") / "CodeRankEmbed")


def test_a_published_checkpoint_gives_the_vectors_of_the_published_architecture(checkpoint: Path) -> None:
    embedder = SentenceTransformersEmbedder(str(checkpoint))
    rows = embedder.embed_documents(TEXTS)
    expected = np.array([published_forward(text) for text in TEXTS])
    assert np.abs(rows - expected).max() < TOLERANCE
    assert np.abs(expected[0] - expected[1]).max() > 0.01  # the texts differ by far more
    identity = embedder.identity
    assert (identity.dimension, identity.max_tokens) == (48, 40)
    assert (identity.query_prefix, identity.document_prefix) == (PREFIX, "")
    query = embedder.embed_query("how to configure a route")
    assert np.abs(query - published_forward(f"{PREFIX}how to configure a route")).max() < TOLERANCE


UNUSABLE = {
    "activation_function": "gelu",
    "causal": True,
    "n_head": 0,
    "parallel_block": True,
    "prenorm": True,
    "rotary_emb_fraction": 0.5,
    "rotary_emb_interleaved": True,
    "rotary_emb_scale_base": 512,
    "rotary_head_dim": True,
    "rotary_scaling_factor": 2,
    "type_vocab_size": 0,
}
MISSING = ("activation_function", "rotary_emb_base", "rotary_emb_fraction")


@pytest.mark.parametrize(("name", "value"), [*UNUSABLE.items(), *((name, None) for name in MISSING)])
def test_a_value_that_cannot_be_honored_is_an_error_that_names_it(
    tmp_path: Path, name: str, value: object
) -> None:
    config = {**PUBLISHED, name: value}
    if value is None:
        del config[name]
    with pytest.raises(ModelError, match=name) as error:
        SentenceTransformersEmbedder(str(write_checkpoint(tmp_path / "model", config)))
    assert "--embedder" in error.value.remedy


def test_weights_that_are_missing_or_too_many_are_refused(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model")
    whole = published_weights()
    gone, more = "encoder.layers.2.mlp.fc2.weight", "encoder.layers.0.attn.Wqkv.bias"
    for weights, named in (
        ({name: array for name, array in whole.items() if name != gone}, gone),
        (whole | {more: whole["emb_ln.bias"]}, more),
    ):
        save_weights(weights, folder)
        with pytest.raises(ModelError) as error:
            SentenceTransformersEmbedder(str(folder))
        assert repr(named) in error.value.message
    save_weights(whole | {"pooler.dense.bias": whole["emb_ln.bias"]}, folder)
    SentenceTransformersEmbedder(str(folder))
