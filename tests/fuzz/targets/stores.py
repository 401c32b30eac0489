"""Binary files: SQLite, NumPy arrays, pickles. Only their bytes change."""

from __future__ import annotations

import pickle
import shutil
from functools import cache
from pathlib import Path

import numpy as np

from branchrank.core.errors import ArtifactError
from branchrank.index.embedders.cache import cache_keys, open_cache
from branchrank.index.embedders.fake import FakeEmbedder
from branchrank.index.maxsim import TokenVectors
from branchrank.index.stores.qdrant_existing import read_pickled
from branchrank.index.stores.vectors import TokenFile, load_vectors, save_token_vectors, save_vectors
from branchrank.search.llm.cassette import Cassette
from branchrank.search.llm.request import CallResult, LLMReply, LLMRequest, Message
from fuzz.target import Target, require
from fuzz.world import put, scratch

REQUEST = LLMRequest(stage="rerank", messages=(Message(role="user", content="which?"),))
MODEL = "scripted"


def _closed(path: Path) -> tuple[bytes, ...]:
    return (path.read_bytes(),)


def _cassette() -> tuple[bytes, ...]:
    path = scratch() / "seed.sqlite"
    with Cassette(path) as made:
        for number in range(3):
            reply = LLMReply(text=f'["c{number}"]', latency_ms=3.5, model=MODEL)
            request = LLMRequest(stage="rerank", messages=(Message(role="user", content=f"q{number}"),))
            made.put(request, MODEL, CallResult(reply=reply))
        made.put(REQUEST, MODEL, CallResult(reply=LLMReply(text='["c1"]')))
    return _closed(path)


def cassette(content: bytes) -> None:
    """A replayed cassette gives the recorded reply or none."""
    path = put("calls.sqlite", content)
    for suffix in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with Cassette(path, readonly=True) as opened:
        found = opened.get(REQUEST, MODEL)
        require(found is None or found.reply.text == '["c1"]', f"another reply: {found!r:.200}")
        opened.difference(REQUEST, MODEL)
        opened.models()
        opened.failures([("", "rerank")])
        len(opened)


TEXTS = ("green tea", "black tea", "kettle")


def _cache() -> tuple[bytes, ...]:
    path = scratch() / "seed-cache" / "cache.sqlite"
    path.parent.mkdir(exist_ok=True)
    made = open_cache(path)
    made.put_many(_vectors())
    made.close()
    return _closed(path)


@cache
def _vectors() -> dict[str, np.ndarray]:
    model = FakeEmbedder(16)
    keys = cache_keys(model.identity, "", TEXTS)
    return dict(zip(keys, model.embed_documents(TEXTS), strict=True))


def embedding_cache(content: bytes) -> None:
    """A damaged cache gives right vectors or none, and takes new ones."""
    folder = scratch() / "cache"
    shutil.rmtree(folder, ignore_errors=True)
    path = put("cache/cache.sqlite", content)
    opened = open_cache(path)
    try:
        found = opened.get_many(list(_vectors()), 16)
        for key, vector in found.items():
            require(np.array_equal(vector, _vectors()[key]), "another vector")
        opened.put_many(_vectors())
    finally:
        opened.close()


def _vector_file() -> tuple[bytes, ...]:
    path = scratch() / "seed.arrays"
    save_vectors(path, FakeEmbedder(16).embed_documents(TEXTS))
    return _closed(path)


def vectors(content: bytes) -> None:
    """An array of another type or shape is refused."""
    matrix = load_vectors(put("vectors.arrays", content), 3, 16)
    require(matrix.shape == (3, 16) and matrix.dtype == np.float32, f"{matrix.dtype} {matrix.shape}")
    with np.errstate(invalid="ignore"):  # the bytes of a signaling NaN
        float(np.asarray(matrix).astype(np.float64).min())


def _token_file() -> tuple[bytes, ...]:
    path = scratch() / "seed-tokens.arrays"
    entries = [
        TokenVectors(np.full((n, 4), n, dtype=np.int8), np.ones(n, dtype=np.float32)) for n in (1, 2, 3)
    ]
    save_token_vectors(path, ["0" * 64, "1" * 64, "2" * 64], entries)
    return _closed(path)


def tokens(content: bytes) -> None:
    """Damaged token vectors are refused, or have one factor per row."""
    opened = TokenFile(put("tokens.arrays", content), ["a", "b", "c"], "int8")
    for key in "abc":
        found = opened.vectors(key)
        require(len(found.values) == len(found.scales), f"{key}: {found}")
    opened.keys  # noqa: B018


class Point:
    """A record as qdrant-client pickles one."""

    def __init__(self) -> None:
        self.__dict__ |= {"id": "x", "vector": [0.5, 0.25], "payload": {"text": "tea", "lines": (1, 2)}}


def _pickles() -> tuple[bytes, ...]:
    plain = {"id": 1, "vector": {"dense": [0.25] * 3}, "payload": {"a": None, "b": {1, 2}, "c": (True,)}}
    return tuple(pickle.dumps(value, protocol) for value in (plain, Point()) for protocol in (4, 5))


def pickled(content: bytes) -> None:
    """Pickles are data or a ``ValueError``, which its callers turn into an error of theirs."""
    try:
        read_pickled(content, frozenset({"fuzz.targets.stores.Point"}))
    except ValueError as error:
        raise ArtifactError(str(error)) from None


TARGETS = (
    Target("cassette", cassette, _cassette, is_text=False),
    Target("embedding-cache", embedding_cache, _cache, is_text=False),
    Target("vectors", vectors, _vector_file, is_text=False),
    Target("tokens", tokens, _token_file, is_text=False),
    Target("pickle", pickled, _pickles, is_text=False),
)
