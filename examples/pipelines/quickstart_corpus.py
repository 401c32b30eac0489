"""What the quickstarts share: the documents of CORPUS (a folder, or a corpus that was added), and the model.

``branchrank.index.embedders.minilm`` has the weights of sentence-transformers/all-MiniLM-L6-v2 and needs no
model hub. Like that model, it reads the first 256 tokens of a text.
"""

import os

from branchrank.documents.named import locate_corpus
from branchrank.index.embedders.minilm import MiniLMEmbedder

CORPUS = locate_corpus(os.environ.get("CORPUS", "sqlalchemy"))
FILES = sorted(
    path
    for path in CORPUS.rglob("*")
    if path.suffix in (".rst", ".md") and "changelog" not in path.relative_to(CORPUS).parts
)
MODEL = MiniLMEmbedder()
