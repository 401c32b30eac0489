"""The fake embedder, with a list of every text that it was asked for."""

from collections.abc import Sequence

import msgspec

from branchrank.index.embedders import DocumentVectors, Vectors
from branchrank.index.embedders.fake import FakeEmbedder

TEXTS = [f"section {number} about routing" for number in range(10)]


class Counting(FakeEmbedder):
    def __init__(self, dimension: int = 64, **changes: object) -> None:
        super().__init__(dimension)
        self.identity = msgspec.structs.replace(self.identity, **changes)
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return super().embed_documents(texts)

    def embed_documents_and_tokens(self, texts: Sequence[str]) -> DocumentVectors:
        self.asked += texts
        return FakeEmbedder(self.identity.dimension).embed_documents_and_tokens(texts)
