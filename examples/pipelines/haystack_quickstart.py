"""Haystack's tutorial on preprocessing files: converter, cleaner, splitter by words, store in memory."""

from dataclasses import replace

from haystack import Pipeline, component
from haystack.components.converters import TextFileToDocument
from haystack.components.preprocessors import DocumentCleaner, DocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from quickstart_corpus import FILES, MODEL


@component
class TextEmbedder:
    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        return {"embedding": MODEL.embed_query(text).tolist()}


def pipeline() -> Pipeline:
    documents = TextFileToDocument(store_full_path=True).run(FILES)["documents"]
    documents = DocumentCleaner().run(documents)["documents"]
    splitter = DocumentSplitter(split_by="word", split_length=150, split_overlap=50)
    documents = splitter.run(documents)["documents"]
    vectors = MODEL.embed_documents([each.content for each in documents]).tolist()
    store = InMemoryDocumentStore()
    store.write_documents(
        [replace(each, embedding=vector) for each, vector in zip(documents, vectors, strict=True)]
    )
    made = Pipeline()
    made.add_component("embedder", TextEmbedder())
    made.add_component("retriever", InMemoryEmbeddingRetriever(store))
    made.connect("embedder.embedding", "retriever.query_embedding")
    return made
