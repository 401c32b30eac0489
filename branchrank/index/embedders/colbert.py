"""Run ColBERT checkpoints, which compute projected token vectors for late interaction.

1. Three checkpoint formats are supported: Stanford's format, PyLate's format and the format in which
   sentence-transformers saves a ColBERT model.
2. A checkpoint in Stanford's format has the architecture ``HF_ColBERT``. The encoder's weights file also
   contains the weights of the projection (``linear.weight``). The file ``artifact.metadata`` contains the
   markers and the maximum lengths.
3. A checkpoint in PyLate's format is a sentence-transformers folder with a module
   ``pylate.models.Dense.Dense``, which sentence-transformers loads without importing PyLate.
4. The checkpoint defines the markers, the maximum lengths of queries and documents, the ``[MASK]`` tokens
   that extend a query, and the punctuation that is removed from documents.
5. The token vectors of a text include those of special tokens and markers, because ColBERT compares them too.
6. A ColBERT model is not trained to compute one vector per text, so the vector of a text is the mean of its
   token vectors, scaled to unit length. The mean vectors are used only for the first stage of a search. The
   dot product of two unscaled mean vectors is the mean cosine similarity of all pairs of tokens, whereas
   MaxSim uses only the best match of each query token.
7. Texts are encoded one at a time, because the last digits of a vector depend on the other texts in a padded
   batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from branchrank.core.errors import ModelError
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.records import Record
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders.hub import (
    REMEDY,
    card_languages,
    files_digest,
    folder_revision,
    model_folder,
    modules_of,
    read_json,
)
from branchrank.index.embedders.protocol import EmbedderIdentity, QueryVectors, Vectors, unit_row, unit_rows
from branchrank.index.embedders.sentence_transformers import (
    LEAST_TOKENS,
    PYLATE_DENSE,
    SentenceTransformersEmbedder,
    check_folder,
    load_model,
)

#: In Stanford's checkpoint format, the file with the marker tokens and the maximum text lengths.
METADATA = "artifact.metadata"
_MODEL_TYPES = ("ColBERT", "MultiVectorEncoder")


class _Config(Record, frozen=True, kw_only=True):
    """The fields of a model's JSON files that show whether the model is a ColBERT model."""

    architectures: tuple[str, ...] | None = None
    model_type: str | None = None


def is_colbert(folder: Path) -> bool:
    """Return whether ``folder`` contains a ColBERT checkpoint.

    Raises :class:`ModelError` if a JSON file of the model can't be read.
    """
    saved = read_json(folder / "config_sentence_transformers.json", _Config, default=_Config())
    return (
        saved.model_type in _MODEL_TYPES
        or _is_stanford(folder)
        or any(module.type == PYLATE_DENSE for module in modules_of(folder))
    )


class ColbertEmbedder(SentenceTransformersEmbedder):
    """An embedder that runs a ColBERT checkpoint with sentence-transformers 6.2 or later.

    Raises :class:`ModelError` if the model is not available, has only pickled weights or needs code from
    its repository.
    """

    def __init__(self, settings: IndexSettings, *, notify: Notify = no_notice) -> None:
        model, revision = settings.embedder, settings.embedding_revision
        folder = model_folder(model, revision, notify)
        check_folder(folder)
        _check_format(folder)
        # The fast tokenizer is not thread-safe.
        self._lock = Lock()
        self.languages = card_languages(folder)
        self._model = load_model(folder, None, notify, multi_vector=True)
        query, document = (self._model.prompts.get(task) or "" for task in ("query", "document"))
        limit = getattr(self._model[0], "document_length", None) or self._model.max_seq_length or LEAST_TOKENS
        marker = self._model.tokenizer(document, add_special_tokens=False)["input_ids"]
        (rows,) = self._model.encode_query(["dimension"], prompt=query, show_progress_bar=False)
        self.identity = EmbedderIdentity(
            name="colbert",
            model=model,
            revision=folder_revision(folder, revision),
            dimension=rows.shape[1],
            max_tokens=limit - len(marker),
            query_prefix=query,
            document_prefix=document,
            weights_digest=files_digest(folder, "*.safetensors", "*.json", METADATA),
        )

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return, for each text, the mean of its token vectors, scaled to unit length."""
        return self.embed_documents_and_tokens(texts).vectors

    def embed_query(self, text: str) -> Vectors:
        """Return the mean of a query's token vectors, scaled to unit length."""
        return self.embed_query_and_tokens(text).vector

    def embed_query_and_tokens(self, text: str) -> QueryVectors:
        """Return the vectors of a query and of its tokens, with the ``[MASK]`` tokens that extend it."""
        (encoded,) = self._encoded("query", [text], convert_to_numpy=True)
        rows = unit_rows(encoded, origin=self.identity.model)
        return QueryVectors(unit_row(rows.sum(axis=0), origin=self.identity.model), rows)

    def _vector_and_rows(self, text: str) -> tuple[Vectors, Vectors]:
        (encoded,) = self._encoded("document", [text], convert_to_numpy=True)
        rows = unit_rows(encoded, origin=self.identity.model)
        return rows.sum(axis=0), rows  # The sum has the same direction as the mean.


def _is_stanford(folder: Path) -> bool:
    return "HF_ColBERT" in (read_json(folder / "config.json", _Config, default=_Config()).architectures or ())


def _check_format(folder: Path) -> None:
    """Raise :class:`ModelError` if the file that describes the markers or the projection is missing."""
    # Without modules.json, sentence-transformers would use a random projection. Without the metadata file,
    # sentence-transformers would use default markers.
    if not _is_stanford(folder):
        if not modules_of(folder):
            raise ModelError(
                f"the model in {folder} has no modules.json, which describes the projection", remedy=REMEDY
            )
    elif not (folder / METADATA).is_file():
        raise ModelError(
            f"the model in {folder} has no {METADATA}, which contains the markers", remedy=REMEDY
        )
