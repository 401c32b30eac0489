"""ColBERT checkpoints in Stanford's and PyLate's format, against a forward pass written out here."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.colbert_checkpoint import (
    DIMENSION,
    DOCUMENT_LENGTH,
    MARKERS,
    QUERY_LENGTH,
    WORDS,
    change,
    save_colbert,
)
from support.tokenizer import SPECIAL

from branchrank.core.errors import ModelError
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import Vectors, open_embedder
from branchrank.index.embedders.colbert import ColbertEmbedder

TEXTS = ["a route", "configure a route, to a section.", "", "text " * 30]


@pytest.fixture(scope="module", params=["stanford", "pylate"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_colbert(tmp_path_factory.mktemp("colbert") / request.param, request.param)


class Reference:
    """ColBERT's forward pass: marker after ``[CLS]``, BERT, projection, unit length.

    A query is filled up with ``[MASK]``, to which nothing attends; a document leaves punctuation out.
    """

    def __init__(self, folder: Path) -> None:
        import torch
        from safetensors.torch import load_file
        from transformers import BertConfig, BertModel

        kind = folder.name
        config = BertConfig.from_pretrained(folder)
        self.bert = BertModel(config).eval()
        weights = load_file(folder / "model.safetensors")
        if kind == "pylate":
            self.projection = load_file(folder / "1_Dense" / "model.safetensors")["linear.weight"]
        else:
            self.projection = weights.pop("linear.weight")
            weights = {name.removeprefix("bert."): weight for name, weight in weights.items()}
        self.bert.load_state_dict(weights)
        vocabulary = [*SPECIAL, *WORDS, *(MARKERS[kind] if kind == "pylate" else ())]
        self.ids = {word: number for number, word in enumerate(vocabulary)}
        self.query_marker, self.document_marker = MARKERS[kind]
        self.torch: Any = torch

    def document(self, text: str) -> Vectors:
        words = [*self.words(text, self.document_marker)[: DOCUMENT_LENGTH - 1], "[SEP]"]
        kept = [word not in string.punctuation for word in words]
        rows: Vectors = self.rows(words, [1] * len(words))[kept]
        return rows

    def query(self, text: str) -> Vectors:
        words = [*self.words(text, self.query_marker)[: QUERY_LENGTH - 1], "[SEP]"]
        fill = QUERY_LENGTH - len(words)
        return self.rows(words + ["[MASK]"] * fill, [1] * len(words) + [0] * fill)

    def words(self, text: str, marker: str) -> list[str]:
        spaced = text.replace(",", " ,").replace(".", " .").split()
        return ["[CLS]", marker, *(word if word in WORDS else "[UNK]" for word in spaced)]

    def rows(self, words: list[str], attended: list[int]) -> Vectors:
        ids = self.torch.tensor([[self.ids[word] for word in words]])
        with self.torch.no_grad():
            hidden = self.bert(ids, attention_mask=self.torch.tensor([attended])).last_hidden_state[0]
        rows: Vectors = (hidden @ self.projection.T).numpy()
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mean(rows: Vectors) -> Vectors:
    """The mean of unit rows, of unit length."""
    center: Vectors = rows.mean(axis=0)
    return center / np.float32(np.linalg.norm(center))


def test_token_vectors_match_a_reference_forward_pass(checkpoint: Path) -> None:
    embedder = ColbertEmbedder(IndexSettings(embedder=str(checkpoint)))
    reference = Reference(checkpoint)
    embedded = embedder.embed_documents_and_tokens(TEXTS)
    for text, rows in zip(TEXTS, embedded.tokens, strict=True):
        expected = reference.document(text)
        assert rows.dtype == np.float32
        assert rows.shape == expected.shape
        assert np.abs(rows - expected).max() < 1e-5
    assert [len(rows) for rows in embedded.tokens] == [5, 9, 3, DOCUMENT_LENGTH]  # no comma, no period
    for text in ["how to configure a route", "", "a " * 30]:
        found = embedder.embed_query_and_tokens(text).tokens
        assert found.shape == (QUERY_LENGTH, DIMENSION)
        assert np.abs(found - reference.query(text)).max() < 1e-5


@pytest.mark.parametrize(
    "checkpoint", ["stanford", pytest.param("pylate", marks=pytest.mark.full)], indirect=True
)
def test_a_texts_own_vector_is_the_mean_of_its_token_vectors(checkpoint: Path) -> None:
    embedder = ColbertEmbedder(IndexSettings(embedder=str(checkpoint)))
    reference = Reference(checkpoint)
    together = embedder.embed_documents_and_tokens(TEXTS)
    assert together.vectors.tobytes() == embedder.embed_documents(TEXTS).tobytes()
    assert np.allclose(together.vectors, [mean(reference.document(text)) for text in TEXTS], atol=1e-5)
    assert np.allclose(embedder.embed_query("a route"), mean(reference.query("a route")), atol=1e-5)
    assert np.array_equal(embedder.embed_documents(["a route"])[0], together.vectors[0])
    assert embedder.embed_documents([]).shape == (0, DIMENSION)


def test_the_identity_covers_everything_that_the_vectors_depend_on(checkpoint: Path, tmp_path: Path) -> None:
    identity = open_embedder(IndexSettings(embedder=str(checkpoint))).identity
    query, document = MARKERS[checkpoint.name]
    assert (identity.name, identity.dimension) == ("colbert", DIMENSION)
    assert identity.query_prefix.strip() == query.strip()
    assert identity.document_prefix.strip() == document.strip()
    assert identity.max_tokens == DOCUMENT_LENGTH - 1
    other = save_colbert(tmp_path / checkpoint.name, checkpoint.name)
    assert (
        ColbertEmbedder(IndexSettings(embedder=str(other))).identity.weights_digest == identity.weights_digest
    )
    if checkpoint.name == "stanford":
        change(other / "artifact.metadata", mask_punctuation=False)
    else:
        change(other / "config_sentence_transformers.json", skiplist_words=[])
    changed = ColbertEmbedder(IndexSettings(embedder=str(other)))
    assert changed.identity.weights_digest != identity.weights_digest
    assert len(changed.embed_documents_and_tokens(TEXTS).tokens[1]) == 11


def test_code_beside_a_checkpoint_is_not_run(checkpoint: Path, tmp_path: Path) -> None:
    folder = save_colbert(tmp_path / checkpoint.name, checkpoint.name)
    marker = tmp_path / "ran"
    (folder / "canary.py").write_text(f"open({str(marker)!r}, 'w')\n")
    change(folder / "config.json", auto_map={"AutoConfig": "canary.Config", "AutoModel": "canary.Model"})
    ColbertEmbedder(IndexSettings(embedder=str(folder)))
    assert not marker.exists()


def foreign_module(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "pylate.models.Other"
    (folder / "modules.json").write_text(json.dumps(modules))


def pickled_projection(folder: Path) -> None:
    (folder / "1_Dense" / "model.safetensors").rename(folder / "1_Dense" / "pytorch_model.bin")


def no_projection(folder: Path) -> None:
    (folder / "1_Dense" / "model.safetensors").unlink()


def no_modules(folder: Path) -> None:
    (folder / "modules.json").unlink()
    change(folder / "config_sentence_transformers.json", model_type="ColBERT")


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (foreign_module, "is never run"),
        (pickled_projection, "pickled"),
        (no_projection, "can't be loaded"),
        (no_modules, "projection"),
    ],
)
def test_what_can_not_be_loaded_safely_is_a_model_error(tmp_path: Path, spoil: Any, match: str) -> None:
    folder = save_colbert(tmp_path / "pylate", "pylate")
    spoil(folder)
    with pytest.raises(ModelError, match=match):
        open_embedder(IndexSettings(embedder=str(folder)))


@pytest.mark.parametrize("missing", ["artifact.metadata", "linear.weight"])
def test_stanfords_format_without_metadata_or_projection_is_refused(tmp_path: Path, missing: str) -> None:
    pytest.importorskip("torch")
    from safetensors.numpy import load_file, save_file

    folder = save_colbert(tmp_path / "stanford", "stanford")
    if missing == "artifact.metadata":
        (folder / missing).unlink()
    else:
        weights = load_file(folder / "model.safetensors")
        del weights[missing]
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=missing):
        open_embedder(IndexSettings(embedder=str(folder)))
