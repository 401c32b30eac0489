"""CodeRankEmbed in its published format, in sentence-transformers and in ONNX Runtime without PyTorch.

The vectors are compared with a forward pass written from the published architecture.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.commands import program
from support.nomic_checkpoints import (
    PREFIX,
    PUBLISHED,
    WORDS,
    published_weights,
    save_weights,
    write_checkpoint,
)
from support.tokenizer import SPECIAL

from branchrank.core.errors import BranchRankError, MissingDependencyError, ModelError, UsageError
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import open_embedder, token_embedder
from branchrank.index.embedders.nomic import NomicEmbedder
from branchrank.index.embedders.sentence_transformers import SentenceTransformersEmbedder

# Importing torch takes seconds, in every process that collects tests.
pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra `models`")

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
    embedder = SentenceTransformersEmbedder(IndexSettings(embedder=str(checkpoint)))
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
        SentenceTransformersEmbedder(
            IndexSettings(embedder=str(write_checkpoint(tmp_path / "model", config)))
        )
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
            SentenceTransformersEmbedder(IndexSettings(embedder=str(folder)))
        assert repr(named) in error.value.message
    save_weights(whole | {"pooler.dense.bias": whole["emb_ln.bias"]}, folder)
    SentenceTransformersEmbedder(IndexSettings(embedder=str(folder)))


def opened(folder: Path, **settings: Any) -> Any:
    return open_embedder(IndexSettings(embedder=str(folder), **settings))


def test_the_vectors_and_the_identity_are_those_of_sentence_transformers(checkpoint: Path) -> None:
    ours, torch = opened(checkpoint), SentenceTransformersEmbedder(IndexSettings(embedder=str(checkpoint)))
    assert isinstance(ours, NomicEmbedder)
    assert ours.identity == torch.identity
    rows = ours.embed_documents(TEXTS)
    assert rows.dtype == np.float32
    for expected in (torch.embed_documents(TEXTS), np.array([published_forward(text) for text in TEXTS])):
        assert (rows * expected).sum(axis=1).min() > 0.99999
        assert np.abs(rows - expected).max() < TOLERANCE
    query = "how to configure a route"
    assert np.abs(ours.embed_query(query) - torch.embed_query(query)).max() < TOLERANCE
    assert np.abs(ours.embed_query(query) - published_forward(PREFIX + query)).max() < TOLERANCE


def test_the_token_vectors_are_those_of_sentence_transformers(checkpoint: Path) -> None:
    ours = token_embedder(opened(checkpoint), "")
    torch = SentenceTransformersEmbedder(IndexSettings(embedder=str(checkpoint)))
    found, expected = ours.embed_documents_and_tokens(TEXTS), torch.embed_documents_and_tokens(TEXTS)
    assert found.vectors.tobytes() == ours.embed_documents(TEXTS).tobytes()
    pairs = [*zip(found.tokens, expected.tokens, strict=True)]
    for text in TEXTS:
        query, theirs = ours.embed_query_and_tokens(text), torch.embed_query_and_tokens(text)
        pairs.append((query.tokens, theirs.tokens))
        assert query.vector.tobytes() == ours.embed_query(text).tobytes()
        assert theirs.vector.tobytes() == torch.embed_query(text).tobytes()
    for a, b in pairs:
        assert a.shape == b.shape
        assert np.abs(a - b).max(initial=0) < 10 * TOLERANCE  # a token's row is not pooled


@pytest.mark.parametrize("gate", ["swiglu", "geglu", "glu"])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_every_gate_and_pooling_that_the_files_name_is_honored(
    tmp_path: Path, gate: str, pooling: str
) -> None:
    ours = opened(write_checkpoint(tmp_path / "model", PUBLISHED | {"activation_function": gate}, pooling))
    assert isinstance(ours, NomicEmbedder) == (gate == "swiglu")
    expected = np.array([published_forward(text, gate, pooling) for text in TEXTS[:2]])
    assert np.abs(ours.embed_documents(TEXTS[:2]) - expected).max() < TOLERANCE


@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        ("sentence_bert_config.json", "max_seq_length", None),
        ("sentence_bert_config.json", "do_lower_case", True),
        ("1_Pooling/config.json", "pooling_mode_max_tokens", True),
        ("1_Pooling/config.json", "include_prompt", False),
    ],
)
def test_an_unsupported_checkpoint_falls_back_to_sentence_transformers(
    tmp_path: Path, file: str, field: str, value: object
) -> None:
    path = write_checkpoint(tmp_path / "model") / file
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    assert isinstance(opened(tmp_path / "model"), SentenceTransformersEmbedder)


def test_a_query_loads_no_torch(checkpoint: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from branchrank.core.settings import IndexSettings\n"
        "from branchrank.index.embedders import open_embedder\n"
        "open_embedder(IndexSettings(embedder=sys.argv[1])).embed_query('route')\n"
        "print(sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    assert program("-c", code, checkpoint, cwd=tmp_path, fresh=True).stdout == "[]\n"


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "checkpoint"])
def test_int8_vectors_are_near_and_have_an_identity_of_their_own(model: str, checkpoint: Path) -> None:
    name = str(checkpoint) if model == "checkpoint" else model
    whole, small = (
        open_embedder(IndexSettings(embedder=name, embedder_precision=precision))
        for precision in ("float32", "int8")
    )
    assert (whole.identity.dtype, small.identity.dtype) == ("float32", "int8")
    texts = [text for text in TEXTS if text]
    rows, expected = small.embed_documents(texts), whole.embed_documents(texts)
    assert 0.97 < (rows * expected).sum(axis=1).min() < 0.99999
    assert small.embed_documents(texts[::-1])[::-1].tobytes() == rows.tobytes()


@pytest.mark.parametrize("kind", [NomicEmbedder, SentenceTransformersEmbedder])
def test_prefixes_of_the_settings_replace_those_of_the_model(
    kind: type[NomicEmbedder | SentenceTransformersEmbedder],
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind is not NomicEmbedder:
        monkeypatch.setattr("branchrank.index.embedders.nomic.supported_model", lambda folder: None)
    own = opened(checkpoint)
    given = {"query_prefix": "text ", "document_prefix": ""}
    made = open_embedder(IndexSettings(embedder=str(checkpoint), **given))
    assert isinstance(own, kind)
    assert isinstance(made, kind)
    assert own.identity.query_prefix not in ("", "text ")
    assert (made.identity.query_prefix, made.identity.document_prefix) == ("text ", "")
    (expected,) = made.embed_documents(["text a route"])
    assert made.embed_query("a route") @ expected > 0.99999
    assert made.embed_query("a route") @ own.embed_query("a route") < 0.9999
    assert len(made.embed_query_and_tokens("a route").tokens) == len(
        own.embed_query_and_tokens("a route").tokens
    )


@pytest.mark.parametrize("name", ["fake", "openai:m", "ollama:m", "none", "folder"])
def test_a_precision_that_an_embedder_does_not_have_is_an_error(name: str, tmp_path: Path) -> None:
    if name == "folder":
        path = write_checkpoint(tmp_path / "model") / "sentence_bert_config.json"
        path.write_text("{}")
        name = str(tmp_path / "model")
    with pytest.raises(UsageError, match="embedder_precision = 'int8'") as error:
        open_embedder(IndexSettings(embedder=name, embedder_precision="int8"))
    assert "--embedder-precision" in error.value.remedy


def test_bfloat16_without_openvino_prints_the_command_that_installs_it(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingDependencyError) as error:
        opened(checkpoint, embedder_precision="bfloat16")
    assert "openvino" in error.value.remedy


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "checkpoint"])
def test_bfloat16_vectors_are_near(model: str, checkpoint: Path) -> None:
    pytest.importorskip("openvino", reason="the extra openvino is not installed")
    name = str(checkpoint) if model == "checkpoint" else model
    try:
        small = open_embedder(IndexSettings(embedder=name, embedder_precision="bfloat16"))
    except BranchRankError as error:
        pytest.skip(error.message)  # a CPU without such instructions
    rows = small.embed_documents(TEXTS)
    expected = open_embedder(IndexSettings(embedder=name)).embed_documents(TEXTS)
    assert (rows * expected).sum(axis=1).min() > 0.999
    assert small.identity.dtype == "bfloat16"
    tokens = token_embedder(small, name).embed_documents_and_tokens(TEXTS[:2])
    assert tokens.vectors.tobytes() == rows[:2].tobytes()
