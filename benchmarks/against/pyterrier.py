"""Compare BranchRank's BM25 with PyTerrier's.

The comparison is skipped if PyTerrier or the Terrier jar is not installed. Nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from benchmarks.against.lexical import DEPTH, GROUP, WHAT
from benchmarks.against.pairs import Pair, Source
from benchmarks.against.table import Skipped
from benchmarks.against.world import World, named
from branchrank.core.settings import Bm25Settings
from branchrank.index.stores.analyzer import analyzer
from branchrank.index.stores.bm25 import Bm25Index

#: The folder with the jars that PyTerrier downloaded.
JARS = Path.home() / ".pyterrier"


def pairs(world: World) -> Source:
    """Yield the comparison with PyTerrier, or the reason why PyTerrier is not compared."""
    jars = sorted(JARS.glob("terrier-assemblies-*.jar"))
    if not jars:
        reason = "PyTerrier downloads a Terrier jar from Maven Central on first use; ~/.pyterrier has none"
        yield Skipped(group=GROUP, against="PyTerrier", reason=reason)
        return
    if importlib.util.find_spec("pyterrier") is None:
        yield Skipped(group=GROUP, against="PyTerrier", reason="the package python-terrier is not installed")
        return
    import pyterrier

    settings = Bm25Settings(k1=1.2, b=0.75)
    analyze = analyzer(settings)
    indexer = pyterrier.IterDictIndexer(
        str(world.scratch / "terrier"), stemmer=None, stopwords=None, tokeniser="whitespace"
    )
    documents = ({"docno": str(n), "text": _words(analyze(text))} for n, text in enumerate(world.terms))
    retriever = pyterrier.terrier.Retriever(indexer.index(documents), wmodel="BM25", num_results=DEPTH)
    ours = Bm25Index.build(world.ids, world.terms, settings)
    yield Pair(
        GROUP,
        WHAT,
        named("python-terrier"),
        lambda: [ours.search(query, DEPTH) for query in world.queries],
        lambda: [retriever.search(_words(analyze(query))) for query in world.queries],
        len(world.queries),
        "question",
        "not compared: Terrier's BM25 uses a different formula",
    )


def _words(tokens: list[str]) -> str:
    """Return the tokens as words that have no special meaning in Terrier's query language."""
    return " ".join(token.replace(".", "_").replace("'", "_") for token in tokens)
