"""What the quickstarts have in common: the documents in the folder CORPUS, and the model that embeds them.

``branchrank.embedders.minilm`` has the weights of sentence-transformers/all-MiniLM-L6-v2 and needs no model
hub. Like that model, it reads the first 256 tokens of a text.
"""

import os
from pathlib import Path

from branchrank.embedders.minilm import MiniLMEmbedder

CORPUS = Path(os.environ.get("CORPUS", "sqlalchemy"))
FILES = sorted(
    path
    for path in CORPUS.rglob("*")
    if path.suffix in (".rst", ".md") and "changelog" not in path.relative_to(CORPUS).parts
)
MODEL = MiniLMEmbedder()
