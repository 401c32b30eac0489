"""CodeRankEmbed in ONNX Runtime: the vectors of sentence-transformers, without PyTorch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedders.test_nomic_bert import TEXTS, published_forward
from support.commands import program
from support.nomic_checkpoints import PREFIX, PUBLISHED, write_checkpoint

from branchrank.embedders import open_embedder, token_embedder
from branchrank.embedders.nomic import NomicEmbedder
from branchrank.embedders.sentence_transformers import SentenceTransformersEmbedder
from branchrank.errors import BranchRankError, MissingDependencyError, UsageError
from branchrank.settings import IndexSettings

pytest.importorskip("torch")
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("published") / "CodeRankEmbed")


def opened(folder: Path, **settings: Any) -> Any:
    return open_embedder(IndexSettings(embedder=str(folder), **settings))


def test_the_vectors_and_the_identity_are_those_of_sentence_transformers(checkpoint: Path) -> None:
    ours, torch = opened(checkpoint), SentenceTransformersEmbedder(str(checkpoint))
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
    torch = SentenceTransformersEmbedder(str(checkpoint))
    found, expected = ours.embed_documents_and_tokens(TEXTS), torch.embed_documents_and_tokens(TEXTS)
    assert found.vectors.tobytes() == ours.embed_documents(TEXTS).tobytes()
    pairs = [*zip(found.tokens, expected.tokens, strict=True)]
    pairs += [(ours.embed_query_tokens(text), torch.embed_query_tokens(text)) for text in TEXTS]
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
        "from branchrank.settings import IndexSettings\n"
        "from branchrank.embedders import open_embedder\n"
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


@pytest.mark.parametrize("name", ["fake", "openai:m", "ollama:m", "none", "folder"])
def test_a_precision_that_an_embedder_does_not_have_is_an_error(name: str, tmp_path: Path) -> None:
    if name == "folder":
        path = write_checkpoint(tmp_path / "model") / "sentence_bert_config.json"
        path.write_text("{}")
        name = str(tmp_path / "model")
    with pytest.raises(UsageError, match="does not support the precision int8") as error:
        open_embedder(IndexSettings(embedder=name, embedder_precision="int8"))
    assert "--embedder-precision float32" in error.value.remedy


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
