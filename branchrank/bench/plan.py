"""From settings and predictor names to the contestants of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from branchrank.artifacts import digest_of
from branchrank.bench.benchmark import Contestant
from branchrank.bench.predictors import ApiPredictor, ClassPredictor, SystemPredictor
from branchrank.embedders.cache import EmbeddingCache
from branchrank.errors import UsageError
from branchrank.index import Index
from branchrank.runs.directory import IndexFacts, PredictorRecord
from branchrank.settings import Resolved
from branchrank.systems.checks import problems
from branchrank.systems.engine import Engine
from branchrank.systems.llm_stages import LLMStages
from branchrank.systems.memo import Memo, QueryMemo
from branchrank.systems.spec import System


class Field:
    """Everything that competes in a run: systems on their index, users' classes, an endpoint."""

    def __init__(self) -> None:
        self.contestants: list[Contestant] = []
        self.predictors: list[PredictorRecord] = []
        self.memos: list[Memo] = []
        self.engines: list[Engine] = []

    def add_systems(
        self,
        systems: Sequence[System],
        index: Index,
        *,
        index_name: str = "default",
        corpus_root: Path,
        settings: Resolved,
        cache: EmbeddingCache | None = None,
        llm_stages: LLMStages | None = None,
        repeats: int = 1,
    ) -> None:
        """Let systems compete over one index; they share one memo. The latency pass uses no ``cache``."""
        memo = Memo()
        self.memos.append(memo)
        engine = Engine(index, corpus_root, settings, memo=memo, cache=cache, llm_stages=llm_stages)
        timing = Engine(index, corpus_root, settings, memo=QueryMemo(), llm_stages=llm_stages)
        self.engines += [engine, timing]
        for system in systems:
            times = repeats if system.asks_llm else 1
            self.contestants.append(
                Contestant(
                    predictor=SystemPredictor(system, engine),
                    unmemoised=SystemPredictor(system, timing),
                    repeats=times,
                )
            )
            self.predictors.append(
                PredictorRecord(
                    name=system.name, llm=system.llm_label, system=system, index=index_name, repeats=times
                )
            )

    def add(self, predictor: ClassPredictor | ApiPredictor) -> None:
        """Let a user's own class or an HTTP endpoint compete."""
        self.contestants.append(Contestant(predictor=predictor, unmemoised=predictor))
        self.predictors.append(
            PredictorRecord(name=predictor.name, llm=predictor.llm, index="", origin=predictor.origin)
        )


def check_names(names: Sequence[str]) -> None:
    """Raise :class:`UsageError` when two contestants bear one name, or none competes."""
    if not names:
        raise UsageError("no predictor is named", remedy="--predictor local")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two predictors are called {twice[0]!r}", remedy="give each its own name")


def check_systems(systems: Sequence[System]) -> None:
    """Raise one :class:`UsageError` with every problem of every system."""
    found = [problem for system in systems for problem in problems(system)]
    if not found:
        return
    remedies = []
    if any("asks for an LLM" in problem for problem in found):
        remedies.append(
            "name the endpoint (--hybrid-base-url, --hybrid-model, --pageindex-base-url, --pageindex-model), "
            "or leave the LLM out (--hybrid-no-llm, --pageindex-no-llm)"
        )
    raise UsageError("\n".join(found), remedy="; ".join(remedies) or "correct the systems")


def index_facts(name: str, index: Index) -> IndexFacts:
    """What ``run.json`` says of an index."""
    manifest = index.manifest
    return IndexFacts(
        name=name,
        generation=index.directory.name,
        digest=digest_of(manifest),
        embedder=manifest.settings.embedder,
        model_revision=manifest.embedder.revision,
        dimension=manifest.embedder.dimension,
        vector_store=index.vectors.name,
        chunks=manifest.chunks,
        nodes=manifest.nodes,
        build_seconds=round(sum(index.report.seconds.values()), 3),
        bytes=index.report.bytes,
    )


def relative(path: Path) -> str:
    """A path as a report shows it: relative to here where it lies near, so that it names no home."""
    near = Path(os.path.relpath(path.resolve(), Path.cwd()))
    return (path if near.parts[:3] == ("..", "..", "..") else near).as_posix()
