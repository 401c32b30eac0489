"""Embedders behind one protocol, opened by name.

========================  ===========================================================================
``--embedder``            route
========================  ===========================================================================
``all-MiniLM-L6-v2``      the original weights from an installed package; needs no hub and no server
``none``                  no model: the index supports keyword search only
``fake``, ``fake:128``    hashed words, for tests and demonstrations; the number is the dimension
``openai:MODEL``          any OpenAI-compatible ``/v1/embeddings`` at ``--embedding-url``
``ollama:MODEL``          an Ollama server's ``/api/embed`` at ``--embedding-url``
``NAME``, ``NAME:MODEL``  an embedder from an installed package (:mod:`branchrank.embedders.installed`)
anything else             a sentence-transformers model or a ColBERT checkpoint by hub name or local path
========================  ===========================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from branchrank.embedders import minilm
from branchrank.embedders.fake import FakeEmbedder
from branchrank.embedders.installed import installed_routes, open_installed
from branchrank.embedders.nothing import NONE, NoEmbedder, no_vectors
from branchrank.embedders.protocol import (
    DocumentVectors,
    Embedder,
    EmbedderIdentity,
    TokenEmbedder,
    Vectors,
    unit_rows,
)
from branchrank.errors import ModelError, UsageError, or_else, suggestion
from branchrank.progress import Notify
from branchrank.settings import IndexSettings

__all__ = [
    "DocumentVectors",
    "Embedder",
    "EmbedderIdentity",
    "FakeEmbedder",
    "TokenEmbedder",
    "Vectors",
    "check_gives_tokens",
    "is_bundled",
    "open_embedder",
    "token_embedder",
    "unit_rows",
]

#: Routes that accept a model after a colon.
ROUTES = ("fake", "openai", "ollama")


def _routes() -> tuple[str, ...]:
    return (*ROUTES, *installed_routes())


def open_embedder(settings: IndexSettings, *, notify: Notify | None = None) -> Embedder:
    """Open the embedder that ``settings.embedder`` names; ``notify`` is called before a download.

    Raises :class:`UsageError` for a malformed name, and :class:`~branchrank.errors.ModelError` if the model
    is not available. It never falls back to another model.
    """
    check_name(settings.embedder)
    route, _, model = settings.embedder.partition(":")
    precision = settings.embedder_precision
    if settings.embedder in (minilm.MODEL, minilm.HUB_NAME):
        return minilm.MiniLMEmbedder(precision=precision)
    if minilm.is_model(folder := Path(settings.embedder).expanduser()):
        return minilm.MiniLMEmbedder(folder, precision=precision)
    if precision != "float32" and (settings.embedder == NONE or route in _routes()):
        raise _float32_only(settings)
    if settings.embedder == NONE:
        return NoEmbedder()
    if route == "fake":
        return FakeEmbedder(int(model)) if model else FakeEmbedder()
    if route == "openai":
        from branchrank.embedders.openai import OpenAIEmbedder

        return OpenAIEmbedder(model, settings.embedding_url)
    if route == "ollama":
        from branchrank.embedders.ollama import OllamaEmbedder

        return OllamaEmbedder(model, settings.embedding_url)
    installed = open_installed(route, model, notify)
    if installed is not None:
        return installed
    try:
        return _open_named(settings, notify or (lambda line: None))
    except ModelError as error:
        if meant := _meant(settings.embedder):
            raise ModelError(f"{error.message}; {meant}", remedy=error.remedy) from error
        raise


def check_name(embedder: str) -> None:
    """Raise :class:`UsageError` for a name that is malformed or misspelt; nothing is loaded."""
    if embedder in (NONE, minilm.MODEL, minilm.HUB_NAME, IndexSettings().embedder):
        return  # without asking the installed packages for their routes
    route, _, model = embedder.partition(":")
    if route == "fake" and model and not model.isdecimal():
        raise UsageError(f"embedder {embedder!r}: {model!r} is not a dimension", remedy="use fake or fake:64")
    if Path(embedder).expanduser().exists():
        return
    if model and route not in _routes():  # names on the hub don't contain a colon
        raise UsageError(
            f"embedder {embedder!r}: there is no route {route!r}{or_else(route, _routes())}",
            remedy="correct --embedder, or install the package that provides it",
        )
    meant = _meant(embedder)
    if meant and "/" not in embedder and route not in _routes():  # names on the hub have an owner
        raise UsageError(f"there is no embedder {embedder!r}; {meant}", remedy="correct --embedder")


def _open_named(settings: IndexSettings, notify: Notify) -> Embedder:
    """Open the model in a folder or on the hub.

    A ColBERT checkpoint gets :class:`ColbertEmbedder`, a NomicBert :class:`NomicEmbedder` unless PyTorch has
    a GPU, any other model :class:`SentenceTransformersEmbedder`.
    """
    from branchrank.embedders.colbert import ColbertEmbedder, is_colbert
    from branchrank.embedders.hub import model_folder
    from branchrank.embedders.nomic import NomicEmbedder, is_nomic
    from branchrank.embedders.sentence_transformers import (
        SentenceTransformersEmbedder,
        has_accelerator,
        require_library,
    )

    model, revision, precision = settings.embedder, settings.embedding_revision, settings.embedder_precision
    require_library(f"the embedder {model}")  # before the model is downloaded
    folder = model_folder(model, revision, notify)
    if is_nomic(folder) and (precision != "float32" or not has_accelerator()):
        return NomicEmbedder(folder, model, revision, precision=precision)
    if precision != "float32":
        raise _float32_only(settings)
    if is_colbert(folder):
        return ColbertEmbedder(model, revision, notify=notify)
    return SentenceTransformersEmbedder(model, revision, notify=notify)


def _float32_only(settings: IndexSettings) -> UsageError:
    return UsageError(
        f"the embedder {settings.embedder} has no precision {settings.embedder_precision}",
        remedy=f"--embedder-precision float32, or --embedder {minilm.MODEL}",
    )


def _meant(embedder: str) -> str:
    """``did you mean `fake`?`` if a name is similar to a known name but not equal to it."""
    known = (*_routes(), NONE, minilm.MODEL, minilm.HUB_NAME, IndexSettings().embedder)
    return "" if embedder in known else suggestion(embedder, known)


def token_embedder(embedder: Embedder, name: str) -> TokenEmbedder:
    """Return ``embedder`` if it gives token vectors. Otherwise raise :class:`UsageError` with ``name``."""
    if all(hasattr(embedder, method) for method in ("embed_documents_and_tokens", "embed_query_tokens")):
        return cast("TokenEmbedder", embedder)
    raise _no_tokens(name)


def check_gives_tokens(name: str) -> None:
    """Raise :class:`UsageError` for ``none`` and for embedders on a server, which give no token vectors."""
    if name == NONE:
        raise no_vectors("the index")
    if name.partition(":")[0] in ("openai", "ollama"):
        raise _no_tokens(name)


def _no_tokens(name: str) -> UsageError:
    return UsageError(
        f"the embedder {name} gives no token vectors, which late interaction compares",
        remedy=f"--embedder {minilm.MODEL} (or CodeRankEmbed, or any sentence-transformers model)",
    )


def is_bundled(embedder: str) -> bool:
    """Whether a name is an embedder that is built in, or the default embedder.

    False for folders, endpoints and other models of the hub. Also false if the current folder contains a
    folder with the default's name.
    """
    route, _, dimension = embedder.partition(":")
    if route == "fake":
        return not dimension or dimension.isdecimal()
    if embedder in (NONE, minilm.MODEL, minilm.HUB_NAME):
        return True
    return embedder == IndexSettings().embedder and not Path(embedder).exists()


def portable_name(embedder: str) -> str:
    """The embedder's name to store in a workspace: for a model's folder, its absolute path."""
    folder = Path(embedder).expanduser()
    if embedder in (NONE, minilm.MODEL, minilm.HUB_NAME) or not folder.is_dir():
        return embedder
    return str(folder.resolve())
