"""Compare BranchRank's retrieval time with that of fusion retrievers from LangChain and LlamaIndex.

1. The compared systems are BranchRank's ``local``, LangChain's ``EnsembleRetriever`` and LlamaIndex's
   ``QueryFusionRetriever``. All three systems search the same chunks and vectors, and fuse the results of
   BM25 and vector search with reciprocal rank fusion (k = 60). Each search returns 40 candidates (80 for the
   BM25 search of ``local``). All other settings are the frameworks' defaults.
2. The questions' vectors are computed in advance, so the embedding model is not timed.
3. The hit rates come from one run of BranchRank's benchmark with the three systems.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.against.dense import BATCH
from benchmarks.against.pairs import Pair, Source
from benchmarks.against.table import Rate
from benchmarks.against.world import World, missing, named
from branchrank import Hit, Workspace
from branchrank.index.embedders.protocol import Vectors
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.memo import Memo

GROUP = "whole benchmark"
DEPTH, RETURNED, RRF_K = 40, 5, 60
MEASURES = ("strict_hit@1", "strict_hit@5", "relaxed_hit@1", "relaxed_hit@5")

#: A function that returns the ids of chunks, best first.
Retrieve = Callable[[str], list[str]]


class Known:
    """The vectors of all texts and questions, in a class that can replace BranchRank's embedding cache."""

    def __init__(self, world: World) -> None:
        texts = [*world.texts, *world.queries]
        self._rows = dict(zip(texts, [*world.matrix, *world.asked], strict=True))
        self._cached: dict[str, Vectors] = {}

    def of(self, text: str) -> list[float]:
        """Return the vector of a text as a list, which is the format that the frameworks need."""
        found: list[float] = self._rows[text].tolist()
        return found

    def get_many(self, keys: Sequence[str], dimension: int) -> dict[str, Vectors]:
        return {key: self._cached[key] for key in keys if key in self._cached}

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        self._cached |= vectors

    def close(self) -> None:
        self._cached.clear()


class Retriever:
    """A predictor that wraps a framework's retriever."""

    llm = "none"

    def __init__(self, name: str, world: World, retrieve: Retrieve) -> None:
        self.name = name
        self._chunks = world.index.chunks
        self._retrieve = retrieve

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """Return at most ``k`` hits from the framework's retriever."""
        return [self._hit(key, rank) for rank, key in enumerate(self._retrieve(query)[:k], start=1)]

    def _hit(self, key: str, rank: int) -> Hit:
        chunk = self._chunks[key]
        return Hit(
            id=chunk.id,
            source=chunk.source,
            line_start=chunk.line_start,
            line_end=chunk.line_end,
            text=chunk.text,
            score=1 / rank,
            node_id=chunk.node_id,
            breadcrumb=chunk.breadcrumb,
        )


def retrievers(world: World) -> Iterator[Retriever | Any]:
    """Return the retrievers of the installed frameworks, and a :class:`Skipped` for each missing one."""
    known = Known(world)
    for package, module, build in (
        ("langchain-classic", "langchain_classic", _langchain),
        ("llama-index-core", "llama_index", _llama_index),
    ):
        if absent := missing(GROUP, package, module):
            yield absent
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LangChain warns that a package is deprecated
            retrieve = build(world, known)
        yield Retriever(named(package), world, retrieve)


def pairs(world: World, found: Sequence[Any], rates: Sequence[Rate]) -> Source:
    """Yield a comparison of ``local`` with each retriever in ``found``.

    ``answers`` in each comparison contains the strict hit@5 of the two systems, from ``rates``. The entry of
    a framework that is not installed is yielded unchanged.
    """
    (system,) = builtin_systems(("local",), world.folder.settings)
    known = Known(world)
    engine = Engine(
        world.index, world.folder.corpus_root, world.folder.settings, memo=Memo(one_query=True), cache=known
    )
    shown = {rate.system: rate.rates[MEASURES[1]] for rate in rates}

    def ours() -> object:
        return [engine.retrieve(system, query, RETURNED) for query in world.queries]

    with engine:
        for each in found:
            if not isinstance(each, Retriever):
                yield each
                continue
            yield Pair(
                GROUP,
                "the system `local`, first 5 results",
                each.name,
                ours,
                lambda each=each: [each.retrieve(query, RETURNED) for query in world.queries],
                len(world.queries),
                "question",
                f"{MEASURES[1]} {shown['local']:.0%}, the other {shown[each.name]:.0%}",
            )


def hit_rates(world: World, found: Sequence[Any]) -> list[Rate]:
    """Return the hit rates of ``local`` and of the frameworks, from one run."""
    compared = [each for each in found if isinstance(each, Retriever)]
    with Workspace.open(world.folder.data_dir, settings={"index.vector_store": "exact"}) as workspace:
        run = workspace.benchmark(
            ["local", *compared],
            questions=world.questions_file,
            latency_sample=0,
            reports=world.scratch / "reports",
        )
    return [
        Rate(
            system=str(row["predictor"]),
            questions=int(row["questions"]),
            rates={measure: round(float(row[measure]), 4) for measure in MEASURES},
        )
        for row in run.summary.to_dict("records")
    ]


def _langchain(world: World, known: Known) -> Retrieve:
    from langchain_chroma import Chroma
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.embeddings import Embeddings

    class Looked(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [known.of(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return known.of(text)

    store = Chroma(
        "langchain",
        embedding_function=Looked(),
        persist_directory=str(world.scratch / "langchain"),
        collection_metadata={"hnsw:space": "cosine"},
    )
    fields = [{"chunk": key} for key in world.ids]
    for start in range(0, len(world.ids), BATCH):
        part = slice(start, start + BATCH)
        store.add_texts(world.texts[part], metadatas=fields[part], ids=world.ids[part])
    words = BM25Retriever.from_texts(world.texts, metadatas=fields)
    words.k = DEPTH
    dense = store.as_retriever(search_kwargs={"k": DEPTH})
    both = EnsembleRetriever(retrievers=[words, dense], weights=[0.5, 0.5], c=RRF_K, id_key="chunk")
    return lambda query: [document.metadata["chunk"] for document in both.invoke(query)]


def _llama_index(world: World, known: Known) -> Retrieve:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    class Looked(BaseEmbedding):  # type: ignore[misc]
        def _get_text_embedding(self, text: str) -> list[float]:
            return known.of(text)

        def _get_query_embedding(self, query: str) -> list[float]:
            return known.of(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return known.of(query)

    nodes = [
        TextNode(id_=key, text=text, embedding=row.tolist())
        for key, text, row in zip(world.ids, world.texts, world.matrix.astype(np.float64), strict=True)
    ]
    dense = VectorStoreIndex(nodes, embed_model=Looked()).as_retriever(similarity_top_k=DEPTH)
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=DEPTH)
    both = QueryFusionRetriever(
        [dense, words],
        llm=MockLLM(),
        mode="reciprocal_rerank",
        similarity_top_k=RETURNED,
        num_queries=1,
        use_async=False,
    )
    return lambda query: [found.node.node_id for found in both.retrieve(query)]
