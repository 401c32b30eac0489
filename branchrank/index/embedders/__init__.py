"""Open an embedder by its name.

The value of ``--embedder`` selects the model and the code that runs it.

- ``all-MiniLM-L6-v2`` runs the original weights from an installed package, without a model hub or a server.
- ``none`` uses no model, so the index supports only keyword search.
- ``fake:N`` computes vectors with N dimensions from hashes of words, for tests and demonstrations. ``fake``
  is the same as ``fake:64``.
- ``openai:MODEL`` sends texts to an OpenAI-compatible endpoint ``/v1/embeddings`` at ``--embedding-url``.
- ``ollama:MODEL`` sends texts to the endpoint ``/api/embed`` of an Ollama server at ``--embedding-url``.
- ``NAME`` or ``NAME:MODEL`` uses the embedder ``NAME`` that an installed package provides. The entry point
  ``NAME`` in the package's group ``branchrank.embedders`` refers to a callable that takes the arguments
  ``model`` and ``notify`` and returns an :class:`Embedder`.
- Any other value is the hub name or the local path of a sentence-transformers model or a ColBERT checkpoint.

A worker in another process opens its own embedder for the batches of texts that it embeds
(:class:`EmbeddingTask`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from branchrank.core.errors import Remedy, UsageError, WorkerError, suggestion
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.registry import Registry
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders.protocol import (
    HUB_NAME,
    MODEL,
    NONE,
    DocumentVectors,
    Embedder,
    TokenEmbedder,
    Vectors,
    no_vectors,
)
from branchrank.index.embedders.protocol import EmbedderIdentity as EmbedderIdentity
from branchrank.index.embedders.protocol import QueryVectors as QueryVectors
from branchrank.index.embedders.protocol import unit_rows as unit_rows

#: The embedders that accept a model's name or a number of dimensions after a colon.
EMBEDDERS = Registry[Callable[[str, Notify | None], Embedder]](
    "embedder", "embedders", dict.fromkeys(("fake", "openai", "ollama"), ""), flag="--embedder"
)
#: The names of the model that needs no model hub, and of the embedder without a model.
_KNOWN = (NONE, MODEL, HUB_NAME)


def open_embedder(
    settings: IndexSettings, *, notify: Notify | None = None, built: EmbedderIdentity | None = None
) -> Embedder:
    """Open the embedder that ``settings.embedder`` selects. ``notify`` is called before a download.

    ``built`` is the identity of the embedder that built the index. With it, a server is not contacted before
    the first text is embedded.

    Raises :class:`UsageError` if the embedder's name is malformed or the embedder does not use one of the
    settings, and :class:`~branchrank.core.errors.ModelError` if the model is not available. An unavailable
    model is never replaced by another model.
    """
    embedder = _open(settings, notify, built)
    for name, value in settings.sent.items():
        if getattr(embedder.identity, name) != value:
            raise _unused(settings, name)
    return embedder


def _open(settings: IndexSettings, notify: Notify | None, built: EmbedderIdentity | None) -> Embedder:
    check_name(settings.embedder)
    route, _, model = settings.embedder.partition(":")
    precision = settings.embedder_precision
    from branchrank.index.embedders import fake, minilm

    if settings.embedder in (MODEL, HUB_NAME):
        return minilm.MiniLMEmbedder(precision=precision)
    if minilm.is_model(folder := Path(settings.embedder).expanduser()):
        return minilm.MiniLMEmbedder(folder, precision=precision)
    if precision != "float32" and (settings.embedder == NONE or route in EMBEDDERS.names):
        raise _unused(settings, "embedder_precision")
    if settings.embedder == NONE:
        return fake.NoEmbedder()
    if route == "fake":
        return fake.FakeEmbedder(int(model)) if model else fake.FakeEmbedder()
    if on_server(settings.embedder):
        from branchrank.index.embedders.endpoint_embedder import OllamaEmbedder, OpenAIEmbedder

        server = OpenAIEmbedder if route == "openai" else OllamaEmbedder
        return server(model, settings, built)
    if route in EMBEDDERS.installed:
        return _open_installed(route, model, notify)
    return _open_named(settings, notify or no_notice)


def check_name(embedder: str) -> None:
    """Raise :class:`UsageError` if ``embedder`` is a malformed or misspelled name."""
    if embedder in (*_KNOWN, IndexSettings().embedder):
        return
    route, _, model = embedder.partition(":")
    if route == "fake" and model and not (model.isdecimal() and len(model) < 10):
        raise UsageError(
            f"embedder {embedder!r}: {model!r} is not a number of dimensions", remedy="use fake or fake:64"
        )
    if os.path.exists(os.path.expanduser(embedder)):  # unlike Path, also for names that are too long
        return
    if model and route not in EMBEDDERS.names:  # Hub names contain no colon.
        raise EMBEDDERS.unknown(route)
    meant = _meant(embedder)
    if meant and "/" not in embedder and route not in EMBEDDERS.names:  # Hub names have the form owner/name.
        raise UsageError(
            f"there is no embedder {embedder!r}; {meant}", remedy=Remedy("correct {}", "--embedder")
        )


def _open_installed(name: str, model: str, notify: Notify | None) -> Embedder:
    """Open the embedder of an installed package."""
    made = EMBEDDERS.get(name)(model, notify)
    if not isinstance(getattr(made, "identity", None), EmbedderIdentity):
        raise UsageError(
            f"the embedder {name!r} returned {made!r}, which has no valid `identity`",
            remedy="add the attribute `identity`, a branchrank.plugins.EmbedderIdentity, to its class",
        )
    return made


def _open_named(settings: IndexSettings, notify: Notify) -> Embedder:
    """Open a model from a local folder or from the Hugging Face Hub."""
    from branchrank.index.embedders.colbert import ColbertEmbedder, is_colbert
    from branchrank.index.embedders.hub import model_folder
    from branchrank.index.embedders.nomic import NomicEmbedder, supported_model
    from branchrank.index.embedders.sentence_transformers import (
        SentenceTransformersEmbedder,
        has_accelerator,
        require_library,
    )

    model, precision = settings.embedder, settings.embedder_precision
    require_library(f"the embedder {model}")  # Report a missing package before the model is downloaded.
    folder = model_folder(model, settings.embedding_revision, notify)
    nomic = supported_model(folder)
    if nomic is not None and (precision != "float32" or not has_accelerator()):
        return NomicEmbedder(folder, nomic, settings)
    if precision != "float32":
        raise _unused(settings, "embedder_precision")
    if is_colbert(folder):
        return ColbertEmbedder(settings, notify=notify)
    return SentenceTransformersEmbedder(settings, notify=notify)


def _unused(settings: IndexSettings, name: str) -> UsageError:
    return UsageError(
        f"the embedder {settings.embedder} does not support {name} = {getattr(settings, name)!r}",
        remedy=(
            Remedy("remove {}, or the setting in branchrank.toml", f"--{name.replace('_', '-')}"),
            Remedy("use another {}", "--embedder"),
        ),
    )


def _meant(embedder: str) -> str:
    """Return a suggestion if ``embedder`` resembles a known name, or else an empty string."""
    known = (*EMBEDDERS.names, *_KNOWN, IndexSettings().embedder)
    return "" if embedder in known else suggestion(embedder, known)


def token_embedder(embedder: Embedder, name: str) -> TokenEmbedder:
    """Return ``embedder`` as a :class:`TokenEmbedder`.

    Raises :class:`UsageError` if ``embedder`` can't compute token vectors. ``name`` is the embedder's
    name in the error message.
    """
    if gives_tokens(embedder):
        return cast("TokenEmbedder", embedder)
    raise _no_tokens(name)


def gives_tokens(embedder: Embedder) -> bool:
    """Return whether an embedder can compute token vectors."""
    return all(
        hasattr(embedder, method) for method in ("embed_documents_and_tokens", "embed_query_and_tokens")
    )


def check_gives_tokens(name: str) -> None:
    """Raise :class:`UsageError` for ``none`` and for embedders on a server, which have no token vectors."""
    if name == NONE:
        raise no_vectors("the index")
    if on_server(name):
        raise _no_tokens(name)


def on_server(name: str) -> bool:
    """Return whether a server runs the model of the embedder ``name``."""
    return name.partition(":")[0] in ("openai", "ollama")


def _no_tokens(name: str) -> UsageError:
    return UsageError(
        f"the embedder {name} does not compute token vectors, which late interaction needs",
        remedy=Remedy("use {} (or CodeRankEmbed, or any sentence-transformers model)", "--embedder", MODEL),
    )


def is_bundled(embedder: str) -> bool:
    """Return whether ``embedder`` is ``none``, a fake embedder, all-MiniLM-L6-v2 or the default model.

    If the current folder contains a file or folder with the default model's name, the name refers to that
    file or folder, and the result is false.
    """
    route, _, dimension = embedder.partition(":")
    if route == "fake":
        return not dimension or dimension.isdecimal()
    return embedder in _KNOWN or (embedder == IndexSettings().embedder and not Path(embedder).exists())


def portable_name(embedder: str) -> str:
    """Return the name of an embedder as it is stored in a workspace's settings.

    If ``embedder`` is the path of a folder, the absolute path of the folder is returned. Any other name is
    returned unchanged.
    """
    folder = os.path.expanduser(embedder)
    return embedder if embedder in _KNOWN or not os.path.isdir(folder) else os.path.realpath(folder)


class EmbeddingTask:
    """A task that embeds batches of texts.

    The result for a batch is a float32 array of shape ``(len(texts), dimension)``, whose rows have unit
    length. The process that creates the task uses ``embedder``. A worker in another process opens its own
    embedder from ``settings``. The worker raises :class:`WorkerError` if its embedder's identity differs
    from the identity of ``embedder``.
    """

    #: No files are sent to workers, because every machine has its own copy of the model.
    needs: tuple[Path, ...] = ()

    def __init__(self, settings: IndexSettings, embedder: Embedder) -> None:
        self._settings = settings
        self._identity = embedder.identity
        self._embedder: Embedder | None = embedder

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_embedder": None}

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[str]], Iterator[Vectors]]]:
        """Yield a function that computes vectors for the texts in a batch."""
        embedder = self._opened()
        yield lambda texts: iter([embedder.embed_documents(texts)])

    def _opened(self) -> Embedder:
        if self._embedder is not None:
            return self._embedder
        embedder = open_embedder(self._settings)
        if embedder.identity != self._identity:
            raise WorkerError(
                f"a worker loaded a different model: {embedder.identity}, but the command uses "
                f"{self._identity}",
                remedy="install the same model on every node",
            )
        return embedder


class TokenTask(EmbeddingTask):
    """A task that computes one :class:`DocumentVectors` per batch, with a vector for each text and token."""

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[str]], Iterator[DocumentVectors]]]:  # type: ignore[override]
        """Yield a function that computes vectors for the texts in a batch and for their tokens."""
        embedder = token_embedder(self._opened(), self._settings.embedder)
        yield lambda texts: iter([embedder.embed_documents_and_tokens(texts)])
