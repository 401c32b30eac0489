"""ColBERT checkpoints, by hub name or local folder: projected token vectors for late interaction.

1. Three formats are supported. Stanford's has the architecture ``HF_ColBERT``, the projection
   ``linear.weight`` beside the encoder's weights, and its markers and lengths in ``artifact.metadata``.
   PyLate's is a sentence-transformers folder with a module ``pylate.models.Dense.Dense``, which
   sentence-transformers loads with its own class, so PyLate is not imported. The third is the format in
   which sentence-transformers saves such models.
2. The checkpoint defines the markers, the lengths, the ``[MASK]`` tokens that extend a query and the
   punctuation that is removed from documents. All vectors that ColBERT scores are token vectors here,
   including those of special tokens and markers.
3. A ColBERT model is not trained to give one vector per text. The vector of a text is the mean of its token
   vectors, scaled to unit length. The dot product of two such means is proportional to the mean cosine over
   all pairs of tokens, whereas MaxSim takes the best match of each query token. It is used for the first
   stage only.
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

#: The file with the markers and lengths in Stanford's format.
METADATA = "artifact.metadata"
_MODEL_TYPES = ("ColBERT", "MultiVectorEncoder")


class _Config(Record, frozen=True, kw_only=True):
    """Fields of ``config.json`` or ``config_sentence_transformers.json`` that identify a ColBERT model."""

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
    """The ColBERT checkpoint ``model`` at ``revision``, run by :mod:`sentence_transformers` 6.2 or later.

    Raises :class:`ModelError` if the model is not available, is pickled, or needs its own code.
    """

    def __init__(self, model: str, revision: str = "", *, notify: Notify | None = None) -> None:
        notify = notify or (lambda line: None)
        folder = model_folder(model, revision, notify)
        check_folder(folder)
        _check_format(folder)
        # The fast tokenizer is not thread-safe.
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
        """One unit row per text: the mean of its token vectors, scaled to unit length."""
        return self.embed_documents_and_tokens(texts, progress).vectors

    def embed_query(self, text: str) -> Vectors:
        """The mean of a query's token vectors, scaled to unit length."""
        row: Vectors = self._unit(self.embed_query_tokens(text).sum(axis=0, keepdims=True))[0]
        return row

    def embed_documents_and_tokens(
        self, texts: Sequence[str], progress: Progress = no_progress
    ) -> DocumentVectors:
        """The unit rows of each text's tokens, without those that the model removes, and their mean."""
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
            vectors[number] = tokens[-1].sum(axis=0)  # same direction as the mean; 0 if there are no tokens
            progress("embed", number + 1, len(texts))
        return DocumentVectors(self._unit(vectors), tokens)

    def embed_query_tokens(self, text: str) -> Vectors:
        """The unit rows of a query's tokens, extended with ``[MASK]`` as the checkpoint defines."""
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
    """Raise :class:`ModelError` if the library would invent the markers or use a random projection."""
    if not _is_stanford(folder):
        if not modules_of(folder):
            raise ModelError(f"{folder} lacks modules.json, which names the projection", remedy=REMEDY)
    elif not (folder / METADATA).is_file():
        raise ModelError(f"{folder} lacks {METADATA}, which has the model's markers", remedy=REMEDY)


def _digest(folder: Path) -> str:
    """SHA-256 over the names and digests of the weights and of the files that define the token markers."""
    files = [path for pattern in ("*.safetensors", "*.json", METADATA) for path in folder.rglob(pattern)]
    return digest_of({path.relative_to(folder).as_posix(): digest_file(path) for path in sorted(files)})
