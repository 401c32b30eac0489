"""The interface of all embedders, the identity of an embedder, and the prefixes of texts.

Vectors from two embedders can be compared only if the embedders have the same identity.

1. A document is embedded as ``document_prefix + text``, and a query as ``query_prefix + text``. If a model's
   configuration contains prompts, the prompts are used as prefixes. Other models, and models on a server,
   which does not report prompts, get the prefixes that their authors published.
2. A text of more than ``max_tokens`` tokens is truncated.
3. Every vector is float32 and has unit length, so the dot product of two vectors is their cosine similarity.
4. A model that runs in this process can also compute a vector for each token of a text. Computing token
   vectors does not change the vector of a document.
5. The token vectors are the output of the model's last layer before pooling. A document's token vectors
   include those of special tokens and of the prefix. A query's token vectors exclude special tokens and the
   prefix.
6. A ColBERT checkpoint defines its own token vectors (:mod:`branchrank.index.embedders.colbert`).
7. The vectors in another program's database can be used if they were computed with the same model. To check
   this, a seeded random sample of the texts is embedded again (:func:`check_agreement`). Stored vectors need
   not have unit length. The other program may have embedded each text together with a breadcrumb or other
   text, so the check tries several text formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Annotated, NamedTuple, Protocol

import numpy as np
from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from branchrank.core.errors import ArtifactError, ModelError, Remedy, UsageError
from branchrank.core.records import SEED, Record
from branchrank.core.settings import IndexSettings

#: The name of the model that needs no model hub, and its name on the hub.
MODEL = "all-MiniLM-L6-v2"
HUB_NAME = f"sentence-transformers/{MODEL}"
#: The embedder without a model.
NONE = "none"
#: The limit of :data:`MODEL` in tokens. Models with a higher limit get the same chunks by default.
COMMON_TOKENS = 256

Vectors = NDArray[np.float32]

#: No known model has vectors with more dimensions.
MOST_DIMENSIONS = 1 << 16


class EmbedderIdentity(Record, frozen=True, kw_only=True):
    """The properties of an embedder that determine the vector of a text.

    Embedders with the same identity return the same vector for the same text. ``name`` is the kind of
    embedder (such as ``minilm``, ``sentence-transformers`` or ``openai``), and ``model`` is the requested
    model. ``revision`` and ``weights_digest`` are empty if they are unknown. ``query_model`` is the name of
    the model that is sent with queries, if it is another one. ``input_type`` is whether a server is told
    which texts are queries.
    """

    name: str
    model: str
    revision: str = ""
    dtype: str = "float32"
    dimension: Annotated[int, Meta(le=MOST_DIMENSIONS)]
    max_tokens: int
    query_prefix: str = ""
    document_prefix: str = ""
    weights_digest: str = ""
    #: An unset field is not encoded, so that the identities of older versions keep their digests.
    query_model: str | UnsetType = UNSET
    input_type: bool | UnsetType = UNSET

    @property
    def sent(self) -> str:
        """A description of what the model gets besides the texts, or an empty string for nothing."""
        prefixes = {"queries": self.query_prefix, "documents": self.document_prefix}
        parts = [f"{prefix!r} before {what}" for what, prefix in prefixes.items() if prefix]
        parts += [f"queries to the model {self.query_model}"] if self.query_model else []
        parts += ["input_type (query or passage)"] if self.input_type else []
        return ", ".join(parts)

    def chunk_tokens(self, wanted: int) -> int:
        """Return ``wanted`` tokens, or the most tokens of a chunk that the model reads if that is less.

        The model adds one token at each end of a text, so a chunk has two tokens less than its limit. A limit
        above ``wanted`` and above :data:`COMMON_TOKENS` is not used, so that all models that reach both get
        the same chunks.
        """
        limit = min(self.max_tokens, max(wanted, COMMON_TOKENS))
        return min(wanted, max(8, limit - 2))


def model_changed(built: EmbedderIdentity, current: EmbedderIdentity) -> ArtifactError:
    """Return the error for an index whose model is not the ``current`` one."""
    return ArtifactError(
        f"the index was embedded by {built}, but the model is now {current}",
        remedy="rebuild the index: branchrank index",
    )


class Embedder(Protocol):
    """Converts texts to vectors of unit length. Raises :class:`~branchrank.core.errors.ModelError` on
    failure."""

    @property
    def identity(self) -> EmbedderIdentity:
        """The properties of the embedder that determine the vector of a text."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts as a float32 array of shape ``(len(texts), dimension)``."""

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a query as a float32 array of shape ``(dimension,)``."""


class DocumentVectors(NamedTuple):
    """The vectors of n texts and of their tokens. All vectors have unit length.

    ``vectors`` is a float32 array of shape ``(n, dimension)``. ``tokens`` contains, for each text, a float32
    array of shape ``(number of tokens, d)``.
    """

    vectors: Vectors
    tokens: list[Vectors]


class QueryVectors(NamedTuple):
    """The unit vector of a query, of shape ``(dimension,)``, and of its n tokens, of shape ``(n, d)``."""

    vector: Vectors
    tokens: Vectors


class TokenEmbedder(Embedder, Protocol):
    """An embedder that also computes a unit vector for each token of a text, for late interaction."""

    def embed_documents_and_tokens(self, texts: Sequence[str]) -> DocumentVectors:
        """Return the vector of each text, as ``embed_documents`` does, and the vectors of its tokens."""

    def embed_query_and_tokens(self, text: str) -> QueryVectors:
        """Return the vector of a query, as ``embed_query`` does, and the vectors of its tokens."""


def unit_rows(vectors: Vectors, *, origin: str) -> Vectors:
    """Scale each row of an ``(n, d)`` array to unit length.

    Raises :class:`ModelError` if a row is all zeros or contains a value that is not finite. The error
    message starts with ``origin``, a description of the model.
    """
    lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1, keepdims=True))
    if not np.isfinite(lengths).all() or not lengths.all():
        row = int(np.flatnonzero(~np.isfinite(lengths[:, 0]) | (lengths[:, 0] == 0))[0])
        raise ModelError(
            f"{origin} returned a vector of length {lengths[row, 0]} for text {row + 1} of {len(vectors)}",
            remedy=("check the model", Remedy("choose another model with {}", "--embedder")),
        )
    unit: Vectors = (vectors / lengths).astype(np.float32)
    return unit


def unit_row(vector: Vectors, *, origin: str) -> Vectors:
    """Scale one vector to unit length. Raises :class:`ModelError` as :func:`unit_rows` does."""
    row: Vectors = unit_rows(vector[np.newaxis], origin=origin)[0]
    return row


class Prefixes(NamedTuple):
    """The texts to put before each query and before each document, including separators."""

    query: str = ""
    document: str = ""


_CONVENTIONS = (
    (r"coderankembed", Prefixes("Represent this query for searching relevant code: ")),
    (r"nomic-embed-text.*", Prefixes("search_query: ", "search_document: ")),
    (r"(multilingual-)?e5-(small|base|large)(-v2)?", Prefixes("query: ", "passage: ")),
    (
        r"(bge-(small|base|large)-en.*|mxbai-embed-large.*)",
        Prefixes("Represent this sentence for searching relevant passages: "),
    ),
)


#: Matches the names of models that are one of these families', also under a server's own name for them.
_FAMILIES = re.compile(
    r"(?<![a-z0-9])(e5|coderankembed|nomic-embed-text|bge-(small|base|large)-en|mxbai-embed-large)(?![a-z0-9])"
)
#: The least cosine of two vectors that are treated as equal.
SAME_COSINE = 0.9999


def conventional_prefixes(model: str) -> Prefixes:
    """Return the published prefixes for a model, or empty prefixes for an unknown model.

    If ``model`` has the form ``owner/name:tag``, the owner and the tag are ignored.
    """
    name = model.rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    for pattern, prefixes in _CONVENTIONS:
        if re.fullmatch(pattern, name):
            return prefixes
    return Prefixes()


def sent_prefixes(settings: IndexSettings, own: Prefixes) -> Prefixes:
    """Return the prefixes in the settings, or the model's ``own`` unless a server sets the prefixes."""
    query, document = Prefixes() if settings.query_model or settings.input_type else own
    given = settings.query_prefix, settings.document_prefix
    return Prefixes(query if given[0] is None else given[0], document if given[1] is None else given[1])


def prefixes_of(prompts: Mapping[str, str | None], settings: IndexSettings) -> Prefixes:
    """Return the prefixes in the settings, the model's prompts, or published prefixes if it has none."""
    document = next((text for name in ("document", "passage", "corpus") if (text := prompts.get(name))), "")
    own = Prefixes(prompts.get("query") or "", document)
    return sent_prefixes(settings, own if any(own) else conventional_prefixes(settings.embedder))


def roles_notes(embedder: Embedder) -> Iterator[str]:
    """Yield a note if the model's family has prefixes, but queries and documents have the same vectors."""
    model, text = embedder.identity.model, "how are queries told from documents"
    if not _FAMILIES.search(model.lower()):
        return
    if embedder.embed_query(text) @ embedder.embed_documents([text])[0] >= SAME_COSINE:
        yield (
            f"{model} gives queries and documents the same vectors, but models of its family need prefixes; "
            "set --query-prefix and --document-prefix, or --input-type or --query-model for a server that "
            "adds the prefixes"
        )


SAMPLE = 20
LEAST_COSINE = 0.999


class VectorAgreement(NamedTuple):
    """The result of comparing stored vectors with newly computed vectors of the same texts.

    ``form`` is the name of the text format for which the new vectors agree with the stored vectors.
    ``sampled`` is the number of texts that were embedded again. ``least`` is the smallest cosine similarity
    between a text's new vector and its stored vector.
    """

    form: str
    sampled: int
    least: float


def sampled(count: int) -> list[int]:
    """Return at most ``SAMPLE`` distinct random integers from 0 to ``count - 1``, in ascending order."""
    return sorted(Random(SEED).sample(range(count), min(SAMPLE, count)))  # noqa: S311 - no secret


def check_agreement(
    embedder: Embedder, vectors: Vectors, forms: Mapping[str, Sequence[str]], *, place: str, remedy: str
) -> VectorAgreement:
    """Return the first text format for which ``embedder`` reproduces the sampled rows of ``vectors``.

    ``vectors`` has the shape ``(n, d)``. ``forms`` maps the name of each text format to the n texts in that
    format. ``place`` describes the source of ``vectors`` in error messages.

    Raises :class:`ArtifactError` in three cases:

    - The embedder does not reproduce the sampled vectors in any text format. The error message describes the
      differences for the text format whose vectors are most similar to the sampled vectors.
    - A sampled vector is all zeros or contains a value that is not finite.
    - The embedder's vectors do not have d dimensions.
    """
    identity = embedder.identity
    model = f"{identity.name} {identity.model}".strip()
    if vectors.shape[1] != identity.dimension:
        raise ArtifactError(
            f"{place} has vectors with {vectors.shape[1]} dimensions, but the embedder {model} produces "
            f"vectors with {identity.dimension} dimensions",
            remedy=remedy,
        )
    rows = sampled(len(vectors))
    stored = vectors[rows].astype(np.float64)
    lengths = np.linalg.norm(stored, axis=1)
    if not np.isfinite(stored).all() or not lengths.all():
        raise ArtifactError(f"{place} contains a vector that is zero or not finite", remedy=remedy)
    tried = []
    for form, texts in forms.items():
        again = embedder.embed_documents([texts[row] for row in rows])
        cosines = np.einsum("ij,ij->i", stored, again) / lengths
        least = float(cosines.min())
        if least >= LEAST_COSINE:
            return VectorAgreement(form, len(rows), least)
        tried.append((least, int((cosines < LEAST_COSINE).sum()), texts[rows[int(cosines.argmin())]]))
    least, count, text = max(tried)
    raise ArtifactError(
        f"the vectors in {place} were not made with {model}: {count} of {len(rows)} sampled texts have a "
        f"different vector; the largest difference (cosine {least:.3f}) is at {text[:60]!r}",
        remedy=remedy,
    )


def no_vectors(what: str, predictor: str = "bm25") -> UsageError:
    """Return the error for a vector search in an index without vectors, and what ``predictor`` to use."""
    return UsageError(
        f"{what} has no vectors, because its embedder is {NONE}",
        remedy=(
            Remedy("use {} (or another model)", "--embedder", "all-MiniLM-L6-v2"),
            Remedy("{}", "--mode", "keyword"),
            Remedy("{}", "--predictor", predictor),
        ),
    )
