"""LangChain's tutorial on semantic search: recursive splitter, vector store in memory, similarity search."""

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from quickstart_corpus import FILES, MODEL


class MiniLM(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return MODEL.embed_documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return MODEL.embed_query(text).tolist()


def retriever() -> BaseRetriever:
    documents = [Document(path.read_text("utf-8"), metadata={"source": str(path)}) for path in FILES]
    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
    store = InMemoryVectorStore.from_documents(splitter.split_documents(documents), MiniLM())
    return store.as_retriever()
