"""The embedding cache's file against a dictionary of what was put in, over any order of operations."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from branchrank.embedders.cache import EmbeddingCache, open_cache

KEYS = [hashlib.sha256(bytes([number])).hexdigest() for number in range(6)]
VECTORS = st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3)


class DictionaryMachine(RuleBasedStateMachine):
    """What was put last is found, under its key and dimension alone, by this and by the next opening."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.notices: list[str] = []
        self.held: dict[str, list[float]] = {}
        self.cache = self.opened()

    def opened(self) -> EmbeddingCache:
        return open_cache(Path(self.folder.name) / "cache.sqlite", notify=self.notices.append)

    @rule(vectors=st.dictionaries(st.sampled_from(KEYS), VECTORS, max_size=4))
    def put(self, vectors: dict[str, list[float]]) -> None:
        self.cache.put_many({key: np.array(vector, dtype=np.float32) for key, vector in vectors.items()})
        self.held |= vectors

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=4, unique=True))
    def get(self, keys: list[str]) -> None:
        found = self.cache.get_many(keys, 3)
        assert {key: vector.tolist() for key, vector in found.items()} == {
            key: self.held[key] for key in keys if key in self.held
        }

    @rule()
    def ask_for_another_dimension(self) -> None:
        assert self.cache.get_many(KEYS, 4) == {}

    @rule()
    def open_again(self) -> None:
        self.cache.close()
        self.cache = self.opened()

    @rule()
    def look_from_elsewhere(self) -> None:
        other = self.opened()
        assert other.get_many(KEYS, 3).keys() == self.held.keys()
        other.close()

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert self.notices == []

    def teardown(self) -> None:
        self.cache.close()
        self.folder.cleanup()


DictionaryMachine.TestCase.settings = settings(
    derandomize=True, max_examples=25, stateful_step_count=15, deadline=None
)
TestEmbeddingCacheMachine = DictionaryMachine.TestCase
