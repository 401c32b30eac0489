"""Retrievers of LangChain, LlamaIndex, Haystack and PyTerrier that return what a question asks for.

``CASES`` maps a question to documents: text, metadata and score. Each of the functions makes a retriever of a
framework that returns them, as a user's module would.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")


class Doc(NamedTuple):
    text: str
    meta: Mapping[str, Any] = MappingProxyType({})
    score: float | None = None


BOILS, VINEGAR = Doc("The kettle boils water."), "Use vinegar to remove limescale."
CASES: dict[str, list[Doc]] = {
    "text only": [BOILS],
    "text and source": [Doc(VINEGAR, {"source": "guide/descale.md"}, 0.5)],
    "text and lines": [Doc(VINEGAR, {"file_path": "guide/descale.md", "line_start": 3, "line_end": 3}, 0.5)],
    "nothing": [],
    "more than k": [BOILS] * 30,
    "duplicates": [BOILS, BOILS._replace(score=0.5)],
    "unicode": [Doc("Der Füllstand – 水位 – steigt.", {"file_name": "wärme.md"})],
    "nowhere": [Doc("A teapot that no page has.", {}, 0.5)],
}


def found(query: str) -> list[Doc]:
    """The documents for a question; a question without a case fails."""
    return CASES[query]


def langchain() -> Any:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Fixed(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [
                Document(each.text, metadata={**each.meta} | ({"score": each.score} if each.score else {}))
                for each in found(query)
            ]

    return Fixed()


def brewing() -> Any:
    """A LangChain retriever that answers every question alike, with lines."""
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    text = "Green tea wants 75 degrees, black tea wants 95."
    place = {"source": "guide/brewing.md", "line_start": 7, "line_end": 7}
    return RunnableLambda(lambda query: [Document(text, metadata=place)])


def llamaindex() -> Any:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return [
                NodeWithScore(node=TextNode(text=each.text, metadata={**each.meta}), score=each.score)
                for each in found(query_bundle.query_str)
            ]

    return Fixed()


def haystack() -> Any:
    from haystack import Document, Pipeline, component

    @component
    class Fixed:
        @component.output_types(documents=list[Document])
        def run(self, query: str) -> dict[str, Any]:
            docs = [
                Document(content=each.text, meta={**each.meta}, score=each.score) for each in found(query)
            ]
            return {"documents": docs}

    pipeline = Pipeline()
    pipeline.add_component("retriever", Fixed())
    return pipeline


def pyterrier() -> Any:
    import pandas as pd
    import pyterrier as pt

    def results(topics: pd.DataFrame) -> pd.DataFrame:
        [query] = topics["query"]
        rows = [
            {"qid": "1", "query": query, "docno": f"d{rank}", "text": each.text, "rank": rank}
            | each.meta
            | {"score": each.score}
            for rank, each in enumerate(found(query))
        ]
        return pd.DataFrame(rows, columns=None if rows else ["qid", "query", "docno", "rank", "score"])

    return pt.apply.generic(results)


FRAMEWORKS = {"langchain": langchain, "llamaindex": llamaindex, "haystack": haystack, "pyterrier": pyterrier}


def langchain_llm() -> Any:
    """A retriever that asks a chat model, without passing its callbacks on."""
    from langchain_core.documents import Document
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.retrievers import BaseRetriever

    usage = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
    reply = AIMessage("kettle", usage_metadata=usage, response_metadata={"model_name": "asked"})

    class Asking(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            GenericFakeChatModel(messages=iter([reply])).invoke(query)
            return [Document(BOILS.text)]

    return Asking()


def llamaindex_llm() -> Any:
    """A retriever followed by a postprocessor that asks a model."""
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.llms.callbacks import llm_completion_callback
    from llama_index.core.postprocessor.types import BaseNodePostprocessor

    class Model(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="asked")

        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **more: Any) -> CompletionResponse:
            usage = {"prompt_tokens": 12, "completion_tokens": 3}
            return CompletionResponse(text="kettle", raw={"model": "asked", "usage": usage})

        def stream_complete(self, prompt: str, formatted: bool = False, **more: Any) -> Any:
            raise NotImplementedError

    class Reranked(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            Model().complete(query_bundle.query_str)
            return nodes

    return [llamaindex(), Reranked()]


def haystack_llm() -> Any:
    """A pipeline in which a generator writes the query."""
    from haystack import component

    @component
    class Writer:
        @component.output_types(replies=list[str], meta=list[dict[str, Any]])
        def run(self, text: str) -> dict[str, Any]:
            usage = {"prompt_tokens": 12, "completion_tokens": 3}
            return {"replies": [text], "meta": [{"model": "asked", "usage": usage}]}

    @component
    class First:
        @component.output_types(query=str)
        def run(self, replies: list[str]) -> dict[str, str]:
            return {"query": replies[0]}

    pipeline = haystack()
    pipeline.add_component("writer", Writer())
    pipeline.add_component("first", First())
    pipeline.connect("writer.replies", "first.replies")
    pipeline.connect("first.query", "retriever.query")
    return pipeline


def misconnected() -> Any:
    """A Haystack pipeline that fails to build."""
    pipeline = haystack_llm()
    pipeline.connect("writer.replies", "retriever.query")
    return pipeline


def without_documents() -> Any:
    """A Haystack pipeline that only answers."""
    pipeline = haystack_llm()
    pipeline.remove_component("retriever")
    return pipeline


def with_another_input() -> Any:
    """A Haystack pipeline that needs more than a query."""
    from haystack import component

    @component
    class Translator:
        @component.output_types(query=str)
        def run(self, text: str, language: str) -> dict[str, str]:
            return {"query": text}

    pipeline = haystack()
    pipeline.add_component("translator", Translator())
    pipeline.connect("translator.query", "retriever.query")
    return pipeline


def routed() -> Any:
    """A Haystack pipeline whose retriever runs only for the query "text only"."""
    from haystack import component

    @component
    class Router:
        @component.output_types(known=str, unknown=str)
        def run(self, query: str) -> dict[str, str]:
            return {"known" if query == "text only" else "unknown": query}

    pipeline = haystack()
    pipeline.add_component("router", Router())
    pipeline.connect("router.known", "retriever.query")
    return pipeline


SPENDING = {"langchain": langchain_llm, "llamaindex": llamaindex_llm, "haystack": haystack_llm}


def of_strings() -> dict[str, Any]:
    """Retrievers that return a list of strings."""
    import pyterrier as pt
    from haystack import component
    from langchain_core.runnables import RunnableLambda
    from llama_index.core.retrievers import BaseRetriever

    class Strings(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> Any:
            return ["kettle"]

    @component
    class Strung:
        @component.output_types(documents=list[str])
        def run(self, query: str) -> dict[str, Any]:
            return {"documents": ["kettle"]}

    return {
        "langchain": RunnableLambda(lambda query: ["kettle"]),
        "llamaindex": Strings(),
        "haystack": Strung(),
        "pyterrier": pt.apply.generic(lambda topics: ["kettle"]),
    }


def of_nine_documents() -> dict[str, Any]:
    """Retrievers over nine documents that return two by themselves."""
    from haystack import Document as HaystackDocument
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.schema import TextNode

    texts = [f"{BOILS.text} {n}" for n in range(9)]
    store = InMemoryDocumentStore()
    store.write_documents([HaystackDocument(content=text) for text in texts])
    vectors = InMemoryVectorStore.from_texts(texts, DeterministicFakeEmbedding(size=8))
    nodes = VectorStoreIndex([TextNode(text=text) for text in texts], embed_model=MockEmbedding(8))
    return {
        "langchain": vectors.as_retriever(search_kwargs={"k": 2}),
        "llamaindex": nodes.as_retriever(similarity_top_k=2),
        "haystack": InMemoryBM25Retriever(store, top_k=2),
    }
