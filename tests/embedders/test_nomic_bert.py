"""CodeRankEmbed in its published format, against a forward pass written from the published architecture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.commands import invoke
from support.tokenizer import SPECIAL, save_tokenizer
from support.worlds import write_pages

from branchrank.embedders.sentence_transformers import SentenceTransformersEmbedder
from branchrank.errors import ModelError

WORDS = ["represent", "this", "query", "for", "searching", "relevant", "code", ":"]
WORDS += ["how", "to", "configure", "a", "route", "section", "text", "tea"]
PREFIX = "Represent this query for searching relevant code: "
TEXTS = ["a route", "how to configure a route section " * 4, "text", "", "tea unknown tea"]
#: float32 against float64, on unit vectors.
TOLERANCE = 2e-6

#: ``config.json`` of nomic-ai/CodeRankEmbed, small, and with other values than transformers' defaults.
PUBLISHED: dict[str, Any] = {
    "activation_function": "swiglu",
    "architectures": ["NomicBertModel"],
    "attn_pdrop": 0.0,
    "auto_map": {
        "AutoConfig": "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig",
        "AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel",
    },
    "bos_token_id": None,
    "causal": False,
    "dense_seq_output": True,
    "embd_pdrop": 0.0,
    "eos_token_id": None,
    "fused_bias_fc": True,
    "fused_dropout_add_ln": True,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-3,
    "max_trained_positions": 64,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "model_type": "nomic_bert",
    "n_embd": 48,
    "n_head": 4,
    "n_inner": 200,
    "n_layer": 3,
    "n_positions": 96,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "parallel_block_tied_norm": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "reorder_and_upcast_attn": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": 37,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "summary_activation": None,
    "summary_first_dropout": 0.0,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "torch_dtype": "float32",
    "transformers_version": "4.44.0",
    "type_vocab_size": 2,
    "use_cache": True,
    "use_flash_attn": True,
    "use_rms_norm": False,
    "use_xentropy": True,
    "vocab_size": len(SPECIAL) + len(WORDS),
}
#: ``n_inner`` and ``vocab_size`` as the published code rounds them up.
INNER, VOCABULARY = 256, 64
Weights = dict[str, NDArray[np.float32]]


def published_weights() -> Weights:
    """Random weights under the names of the published checkpoints."""
    random = np.random.default_rng(5)
    size = PUBLISHED["n_embd"]

    def matrix(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, 0.2, shape).astype(np.float32)

    def norm(name: str) -> Weights:
        return {f"{name}.weight": 1 + matrix(size), f"{name}.bias": matrix(size)}

    weights = {
        "embeddings.word_embeddings.weight": matrix(VOCABULARY, size),
        "embeddings.token_type_embeddings.weight": matrix(2, size),
        **norm("emb_ln"),
    }
    for n in range(PUBLISHED["n_layer"]):
        layer = f"encoder.layers.{n}"
        weights |= {
            f"{layer}.attn.Wqkv.weight": matrix(3 * size, size),
            f"{layer}.attn.out_proj.weight": matrix(size, size),
            f"{layer}.mlp.fc11.weight": matrix(INNER, size),
            f"{layer}.mlp.fc12.weight": matrix(INNER, size),
            f"{layer}.mlp.fc2.weight": matrix(size, INNER),
            **norm(f"{layer}.norm1"),
            **norm(f"{layer}.norm2"),
        }
    return weights


def save_weights(weights: dict[str, Any], folder: Path) -> None:
    from safetensors.numpy import save_file

    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def write_checkpoint(folder: Path, config: dict[str, Any] | None = None, pooling: str = "cls") -> Path:
    """The folder of a model as the hub has it."""
    folder.mkdir(parents=True)
    save_tokenizer(folder, WORDS)
    save_weights(published_weights(), folder)
    files: dict[str, Any] = {
        "config.json": config or PUBLISHED,
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": PUBLISHED["n_embd"],
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
            "pooling_mode_weightedmean_tokens": False,
            "pooling_mode_lasttoken": False,
            "include_prompt": True,
        },
        "sentence_bert_config.json": {"max_seq_length": 40, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {"query": PREFIX}, "default_prompt_name": None},
    }
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


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
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(
            (centred**2).mean(axis=-1, keepdims=True) + PUBLISHED["layer_norm_epsilon"]
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


@pytest.mark.parametrize("gate", ["swiglu", "geglu", "glu"])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_every_gate_and_pooling_that_the_files_name_is_honoured(
    tmp_path: Path, gate: str, pooling: str
) -> None:
    config = PUBLISHED | {"activation_function": gate}
    folder = write_checkpoint(tmp_path / "model", config, pooling)
    rows = SentenceTransformersEmbedder(str(folder)).embed_documents(TEXTS[:2])
    expected = np.array([published_forward(text, gate, pooling) for text in TEXTS[:2]])
    assert np.abs(rows - expected).max() < TOLERANCE


UNUSABLE = {
    "activation_function": "gelu",
    "causal": True,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "n_embd": 50,
    "n_head": 0,
    "n_layer": 0,
    "norm_mlp": True,
    "num_experts": 8,
    "num_heads_kv": 2,
    "parallel_block": True,
    "prenorm": True,
    "qkv_proj_bias": True,
    "rotary_emb_fraction": 0.5,
    "rotary_emb_interleaved": True,
    "rotary_emb_scale_base": 512,
    "rotary_head_dim": True,
    "rotary_scaling_factor": 2,
    "type_vocab_size": 0,
    "use_rms_norm": True,
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_value_that_cannot_be_honoured_is_an_error_that_names_it(checkpoint: Path, name: str) -> None:
    path = checkpoint / "config.json"
    path.write_text(json.dumps(PUBLISHED | {name: UNUSABLE[name]}))
    try:
        with pytest.raises(ModelError) as error:
            SentenceTransformersEmbedder(str(checkpoint))
    finally:
        path.write_text(json.dumps(PUBLISHED))
    shown = {"n_head": "n_embd"}.get(name, name)
    assert f"{shown} is {json.dumps((PUBLISHED | {name: UNUSABLE[name]})[shown])}" in error.value.message
    assert "--embedder" in error.value.remedy


@pytest.mark.parametrize(
    ("name", "default"),
    [("activation_function", '"gelu_new"'), ("qkv_proj_bias", "true"), ("rotary_emb_fraction", "0.0")],
)
def test_a_field_left_out_has_the_published_default(tmp_path: Path, name: str, default: str) -> None:
    config = {key: value for key, value in PUBLISHED.items() if key != name}
    with pytest.raises(ModelError) as error:
        SentenceTransformersEmbedder(str(write_checkpoint(tmp_path / "model", config)))
    assert f"{name} is {default}, its default" in error.value.message


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


def test_an_index_is_built_and_searched_with_a_published_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    words = ("--data-dir", tmp_path / "data", "--embedder", checkpoint, "--quiet")
    result = invoke("index", tmp_path / "docs", *words)
    assert result.exit_code == 0, result.output
    result = invoke("retrieve", "tea", "--data-dir", tmp_path / "data", "--json", "--quiet")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["hits"]
