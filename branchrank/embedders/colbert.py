"""A ColBERT checkpoint: projected token vectors for late interaction, by hub name or local folder.

1. Two published formats are read, and the one in which sentence-transformers saves such models. Stanford's
   has the architecture ``HF_ColBERT``, the projection ``linear.weight`` beside the encoder's weights, and its
   markers and lengths in ``artifact.metadata``. PyLate's is a sentence-transformers folder with a module
   ``pylate.models.Dense.Dense``, for which the library has a class of its own: PyLate is not imported.
2. Markers, lengths, the ``[MASK]`` tokens that extend a query and the punctuation that a document leaves out
   are the checkpoint's. Every vector that it scores is a token vector here, those of special tokens and
   markers included.
3. Such a model is not trained to give one vector for a text. The vector of a text is the mean of its token
   vectors, scaled to unit length. The dot product of two such means is proportional to the mean cosine of all
   pairs of tokens, where MaxSim takes the best match of each; it serves the first stage only.
4. Texts are encoded one at a time, as in :mod:`branchrank.embedders.sentence_transformers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from branchrank.artifacts import digest_file, digest_of
from branchrank.embedders.hub import model_folder
from branchrank.embedders.protocol import DocumentVectors, EmbedderIdentity, Vectors, unit_rows
from branchrank.embedders.sentence_transformers import (
    LEAST_TOKENS,
    PYLATE_DENSE,
    REMEDY,
    check_folder,
    folder_revision,
    load_model,
    modules_of,
    read_json,
)
from branchrank.errors import ModelError
from branchrank.printable import encodable
from branchrank.progress import Notify, Progress, no_progress
from branchrank.records import Record

#: Markers and lengths of Stanford's format.
METADATA = "artifact.metadata"
_MODEL_TYPES = ("ColBERT", "MultiVectorEncoder")


class _Config(Record, frozen=True, kw_only=True):
    """What marks a ColBERT checkpoint in ``config.json`` or ``config_sentence_transformers.json``."""

    architectures: tuple[str, ...] | None = None
    model_type: str | None = None


def is_colbert(folder: Path) -> bool:
    """Whether ``folder`` holds a ColBERT checkpoint. Raises :class:`ModelError` for unreadable files."""
    saved = read_json(folder / "config_sentence_transformers.json", _Config, default=_Config())
    return (
        saved.model_type in _MODEL_TYPES
        or _is_stanford(folder)
        or any(module.type == PYLATE_DENSE for module in modules_of(folder))
    )


class ColbertEmbedder:
    """The ColBERT checkpoint ``model`` at ``revision``, by :mod:`sentence_transformers` from 6.2 on.

    Raises :class:`ModelError` when it can't be had, is pickled, or needs code of its own.
    """

    def __init__(self, model: str, revision: str = "", *, notify: Notify | None = None) -> None:
        notify = notify or (lambda line: None)
        folder = model_folder(model, revision, notify)
        check_folder(folder)
        _check_format(folder)
        # A fast tokenizer must not be used by two threads at once.
        self._lock = Lock()
        self._model = load_model(folder, None, notify, multi_vector=True)
        query, document = (self._model.prompts.get(task) or "" for task in ("query", "document"))
        limit = getattr(self._model[0], "document_length", None) or self._model.max_seq_length or LEAST_TOKENS
        marker = self._model.tokenizer(document, add_special_tokens=False)["input_ids"]
        self.identity = EmbedderIdentity(
            name="colbert",
            model=model,
            revision=folder_revision(folder, revision),
            dimension=len(self._query_rows("dimension", query)[0]),
            max_tokens=limit - len(marker),
            query_prefix=query,
            document_prefix=document,
            weights_digest=_digest(folder),
        )

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """The mean of each text's token vectors, as unit rows."""
        return self.embed_documents_and_tokens(texts, progress).vectors

    def embed_query(self, text: str) -> Vectors:
        """The mean of a query's token vectors, of unit length."""
        row: Vectors = self._unit(self.embed_query_tokens(text).sum(axis=0, keepdims=True))[0]
        return row

    def embed_documents_and_tokens(
        self, texts: Sequence[str], progress: Progress = no_progress
    ) -> DocumentVectors:
        """The unit rows of each text's tokens, without those that the model leaves out, and their mean."""
        vectors = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        tokens = []
        for number, text in enumerate(texts):
            with self._lock:
                (rows,) = self._model.encode_document(
                    [encodable(text)],
                    prompt=self.identity.document_prefix,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
            tokens.append(self._unit(rows))
            vectors[number] = tokens[-1].sum(axis=0)  # the mean's direction, and 0 without a token
            progress("embed", number + 1, len(texts))
        return DocumentVectors(self._unit(vectors), tokens)

    def embed_query_tokens(self, text: str) -> Vectors:
        """The unit rows of a query's tokens, extended with ``[MASK]`` as the checkpoint says."""
        return self._unit(self._query_rows(text, self.identity.query_prefix))

    def _query_rows(self, text: str, prefix: str) -> Vectors:
        with self._lock:
            rows: Vectors
            (rows,) = self._model.encode_query(
                [encodable(text)], prompt=prefix, convert_to_numpy=True, show_progress_bar=False
            )
        return rows

    def _unit(self, rows: Vectors) -> Vectors:
        return unit_rows(rows, origin=self.identity.model)


def _is_stanford(folder: Path) -> bool:
    config = read_json(folder / "config.json", _Config, default=_Config())
    return "HF_ColBERT" in (config.architectures or ())


def _check_format(folder: Path) -> None:
    """Raise :class:`ModelError` where the library would make up markers, or a projection at random."""
    if not _is_stanford(folder):
        if not modules_of(folder):
            raise ModelError(f"{folder} lacks modules.json, which names the projection", remedy=REMEDY)
    elif not (folder / METADATA).is_file():
        raise ModelError(f"{folder} lacks {METADATA}, which has the model's markers", remedy=REMEDY)


def _digest(folder: Path) -> str:
    """SHA-256 over the names and digests of the weights and of the files that say how tokens are marked."""
    files = [path for pattern in ("*.safetensors", "*.json", METADATA) for path in folder.rglob(pattern)]
    return digest_of({path.relative_to(folder).as_posix(): digest_file(path) for path in sorted(files)})
