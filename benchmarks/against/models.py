"""Compare the embedding speed of BranchRank (with ONNX Runtime) and sentence-transformers (with PyTorch)."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.against.pairs import Pair, Source
from benchmarks.against.table import Skipped
from benchmarks.against.world import ROOT, World, missing, named
from branchrank.core.errors import BranchRankError
from branchrank.core.settings import IndexSettings
from branchrank.core.settings.parts import Precision
from branchrank.index.embedders import Embedder
from branchrank.index.embedders.minilm import MODEL, MiniLMEmbedder, find_model
from branchrank.index.embedders.nomic import NomicEmbedder, supported_model
from branchrank.index.embedders.sentence_transformers import SentenceTransformersEmbedder

GROUP = "embedding"
#: The number of texts per call.
SMALL, LARGE = 32, 4
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "int8")
CODE = "CodeRankEmbed"


def pairs(world: World) -> Source:
    """Yield one comparison for each precision of each model.

    CodeRankEmbed is timed with random weights, because the time does not depend on the values of the weights.
    """
    from sentence_transformers import SentenceTransformer

    against = named("sentence-transformers")
    texts = random.Random(42).sample(world.texts, min(SMALL, len(world.texts)))
    bare = SentenceTransformer(str(find_model()), device="cpu", local_files_only=True)
    for precision in PRECISIONS:
        if absent := _absent(precision):
            yield absent
            continue
        try:
            ours = MiniLMEmbedder(precision=precision)
        except BranchRankError as error:  # the CPU has no instructions for this precision
            yield Skipped(group=GROUP, against=f"{MODEL}, {precision}", reason=error.message)
            continue
        yield _pair(f"{MODEL}, {precision}", ours, bare, against, texts)
    yield from _code_rank_embed(world, texts[:LARGE], against)


def _code_rank_embed(world: World, texts: Sequence[str], against: str) -> Source:
    folder = random_checkpoint(world.scratch / CODE)
    bare = SentenceTransformersEmbedder(IndexSettings(embedder=str(folder)))._model
    for precision in PRECISIONS:
        if _absent(precision):
            continue  # already reported for the small model
        try:
            found = supported_model(folder)
            assert found is not None
            ours = NomicEmbedder(folder, found, IndexSettings(embedder=CODE, embedder_precision=precision))
        except BranchRankError:
            continue
        yield _pair(f"{CODE} (random weights), {precision}", ours, bare, against, texts)


def _absent(precision: Precision) -> Skipped | None:
    return missing(GROUP, "openvino") if precision == "bfloat16" else None


def _pair(what: str, ours: Embedder, bare: Any, against: str, texts: Sequence[str]) -> Pair:
    def theirs() -> Any:
        return bare.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    rows, expected = ours.embed_documents(texts), theirs()
    cosines = (rows * expected).sum(axis=1)
    if ours.identity.dtype == "float32":
        difference = float(np.abs(rows - expected).max())
        assert difference < 1e-5, f"vectors differ by {difference:.1e}"
        answers = f"the same vectors (largest difference {difference:.0e})"
    else:
        answers = f"cosine {cosines.mean():.5f} on average, {cosines.min():.5f} at least"
    return Pair(
        GROUP, what, against, lambda: ours.embed_documents(texts), theirs, len(texts), "text", answers
    )


def random_checkpoint(folder: Path) -> Path:
    """Write a model with CodeRankEmbed's configuration, random weights and all-MiniLM-L6-v2's tokenizer."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.nomic_checkpoints import FULL_SIZE, PUBLISHED, write_checkpoint

    def tokenizer(into: Path) -> None:
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
            if (find_model() / name).is_file():
                shutil.copy(find_model() / name, into / name)
        # all-MiniLM-L6-v2 has CodeRankEmbed's vocabulary, but truncates texts at 256 tokens by default.
        path = into / "tokenizer_config.json"
        config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        path.write_text(json.dumps(config | {"model_max_length": 2048}), encoding="utf-8")

    config = PUBLISHED | FULL_SIZE
    return write_checkpoint(folder, config, tokenizer=tokenizer, max_tokens=2048, deviation=0.02)
