"""LlamaIndex's starter tutorial: a directory reader and a vector index with their defaults."""

from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from quickstart_corpus import FILES, MODEL


class MiniLM(BaseEmbedding):
    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return MODEL.embed_documents(texts).tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return MODEL.embed_query(query).tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def retriever() -> BaseRetriever:
    documents = SimpleDirectoryReader(input_files=FILES).load_data()
    return VectorStoreIndex.from_documents(documents, embed_model=MiniLM()).as_retriever()
