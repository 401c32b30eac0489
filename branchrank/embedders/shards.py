"""The tasks that workers run to embed texts. Each shard of a task is one batch of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from branchrank.embedders import Embedder, open_embedder, token_embedder
from branchrank.embedders.protocol import DocumentVectors, EmbedderIdentity, Vectors
from branchrank.errors import WorkerError
from branchrank.settings import IndexSettings

Texts = Sequence[str]


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
    def open(self) -> Iterator[Callable[[Texts], Iterator[Vectors]]]:
        """Yield a function that computes vectors for the texts in a batch."""
        embedder = self._opened()

        def work(texts: Texts) -> Iterator[Vectors]:
            yield embedder.embed_documents(texts)

        yield work

    def _opened(self) -> Embedder:
        return self._embedder or _same(open_embedder(self._settings), self._identity)


class TokenTask(EmbeddingTask):
    """A task that computes one :class:`DocumentVectors` per batch, with a vector for each text and token."""

    @contextmanager
    def open(self) -> Iterator[Callable[[Texts], Iterator[DocumentVectors]]]:  # type: ignore[override]
        """Yield a function that computes vectors for the texts in a batch and for their tokens."""
        embedder = token_embedder(self._opened(), self._settings.embedder)

        def work(texts: Texts) -> Iterator[DocumentVectors]:
            yield embedder.embed_documents_and_tokens(texts)

        yield work


def _same(embedder: Embedder, wanted: EmbedderIdentity) -> Embedder:
    if embedder.identity != wanted:
        raise WorkerError(
            f"a worker loaded a different model: {embedder.identity}, but the command uses {wanted}",
            remedy="install the same model on every node",
        )
    return embedder
