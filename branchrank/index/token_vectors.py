"""Write the chunks' token vectors (one vector per token) during a build.

1. A chunk has the same key as in the embedding cache. The key is computed from the model's identity and the
   embedded text with its prefix.
2. Token vectors that are in the current generation are copied, and missing token vectors are computed in
   batches.
3. To limit memory use, token vectors are written to disk batch by batch. The model's forward passes also
   compute the chunks' embedding vectors, which are returned to the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from branchrank.embedders import Embedder, token_embedder
from branchrank.embedders.cache import BATCH, cache_keys
from branchrank.embedders.protocol import DocumentVectors, Vectors
from branchrank.embedders.shards import TokenTask
from branchrank.errors import ArtifactError
from branchrank.execution.executors import Executor
from branchrank.index.generations import MANIFEST
from branchrank.index.manifest import Manifest, read_record
from branchrank.index.reader import CHUNKS, TOKENS
from branchrank.index.stamps import check_digests
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.files import read_jsonl
from branchrank.io.progress import Progress
from branchrank.ranking.maxsim import TokenPrecision, TokenVectors, quantize
from branchrank.records import Chunk
from branchrank.stores.indexed_text import embedded_text
from branchrank.stores.token_file import TokenFile, save_token_vectors


def keep_token_vectors(
    workspace: WorkspaceFolder,
    embedder: Embedder,
    executor: Executor,
    chunks: Mapping[str, Chunk],
    directory: Path,
    progress: Progress,
) -> dict[str, Vectors]:
    """Write the chunks' token vectors to ``directory``, if the settings enable token vectors.

    Returns the embedding of each text whose token vectors were computed, as a float32 unit vector of shape
    ``(dimension,)``. Raises :class:`~branchrank.errors.UsageError` if the model does not compute token
    vectors.
    """
    precision = workspace.index_settings.token_precision
    if precision is None:
        return {}
    model = token_embedder(embedder, workspace.index_settings.embedder)
    texts = [embedded_text(chunk) for chunk in chunks.values()]
    keys = cache_keys(model.identity, model.identity.document_prefix, texts)
    with ExitStack() as held:
        known = _previous(workspace, precision, held)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        vectors: dict[str, Vectors] = {}
        task = TokenTask(workspace.index_settings, embedder)
        computed = _computed(partial(executor.map, task), missing, precision, vectors, progress)
        save_token_vectors(directory, keys, _in_order(keys, known, computed))
    return vectors


def _previous(
    workspace: WorkspaceFolder, precision: TokenPrecision, held: ExitStack
) -> dict[str, TokenVectors]:
    """Return the current generation's token vectors, as a dictionary from keys to views of the file."""
    with suppress(ArtifactError):
        pin = workspace.generations.pin()
        held.callback(pin.release)
        manifest = read_record(pin.directory / MANIFEST, Manifest)
        if manifest.settings.token_vectors != precision:
            return {}
        names = {name: digest for name, digest in manifest.digests.items() if name.startswith(f"{TOKENS}/")}
        check_digests(pin.directory, names)
        chunks = read_jsonl(pin.directory / CHUNKS, Chunk, error=ArtifactError, remedy="branchrank index")
        ids = [chunk.id for chunk in chunks]
        kept = TokenFile(pin.directory / TOKENS, ids, precision)
        return {key: kept.vectors(chunk) for key, chunk in zip(kept.keys, ids, strict=True)}
    return {}


def _computed(
    embed_batches: Callable[[list[list[str]]], Iterator[DocumentVectors]],
    texts: dict[str, str],
    precision: TokenPrecision,
    vectors: dict[str, Vectors],
    progress: Progress,
) -> Iterator[tuple[str, TokenVectors]]:
    """Yield each key with its token vectors. Add the embedding of each text to the dict ``vectors``."""
    keys = list(texts)
    batches = [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]
    done = 0
    embedded_batches = embed_batches([[texts[key] for key in batch] for batch in batches])
    for batch, embedded in zip(batches, embedded_batches, strict=True):
        done += len(batch)
        vectors.update(zip((texts[key] for key in batch), embedded.vectors, strict=True))
        progress("tokens", done, len(keys))
        yield from (
            (key, quantize(each, precision)) for key, each in zip(batch, embedded.tokens, strict=True)
        )


def _in_order(
    keys: Sequence[str], known: dict[str, TokenVectors], computed: Iterator[tuple[str, TokenVectors]]
) -> Iterator[TokenVectors]:
    """Yield the token vectors of each key, from ``known`` or from ``computed``, in the order of ``keys``."""
    repeated = {key for key, count in Counter(keys).items() if count > 1}
    fresh: dict[str, TokenVectors] = {}
    for key in keys:
        vectors = known.get(key) or fresh.get(key)
        if vectors is None:
            _, vectors = next(computed)
            if key in repeated:
                fresh[key] = vectors
        yield vectors
