"""Check that each system could have produced its rows (:mod:`branchrank.systems.checks`).

1. A row must contain the system's stages. The length of each stage's trace must agree with the settings.
2. Hits with the same id must have the same node and the same lines in all rows. A row must not contain a hit
   twice, and scores must not increase from one rank to the next.
3. The ranks in each branch must be within the branch's limit, and scores computed by rank fusion must match
   the ranks.
4. The ranks of the gold must agree with the hits and with each other.
5. Rows from systems that use an LLM must contain LLM calls, and other rows must not contain any.

The rows of predictors that are classes or endpoints are not checked, because their stages are unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isclose

from branchrank.errors import UsageError
from branchrank.records import Question
from branchrank.report.verify.findings import Finding
from branchrank.report.verify.rows import row_finding
from branchrank.runs.directory import IndexFacts, PredictorRecord
from branchrank.runs.rows import Row, RowHit
from branchrank.runs.run import RunData
from branchrank.spec import System
from branchrank.stores.vectors import squared_distance
from branchrank.systems.branches import branch_kind, label
from branchrank.systems.checks import depth_of, fits, fused_score, last_ranking, least_calls, least_hits

_PASSAGES = "passages"
#: Tolerances for scores in traces (stored with nine decimal places), and for distances (in single precision).
_TRACED, _SINGLE = 1e-8, 1e-5


def check_systems(run: RunData) -> list[Finding]:
    """Check every successful row from every predictor that is a system."""
    findings: list[Finding] = []
    places: dict[tuple[str, str], tuple[object, ...]] = {}
    indexes = {index.name: index for index in run.record.indexes}
    for predictor in run.record.predictors:
        system = predictor.system
        if system is None or not _is_known(system):
            continue
        checks = _Checks(run, predictor, system, indexes.get(predictor.index))
        for row in run.rows:
            if row.predictor == predictor.name and row.status == "ok":
                moved = _moved(row, predictor.index, places) if not system.passages.lines else ()
                texts = [*checks.faults(row), *moved]
                findings += [row_finding(row.key, text) for text in texts]
    return findings


def _is_known(system: System) -> bool:
    """Return whether a system searches at least one branch and all of its branch kinds are installed."""
    try:
        return all(branch_kind(branch.kind) for branch in system.branches) and bool(system.searched)
    except UsageError:
        return False


def _moved(row: Row, index: str, places: dict[tuple[str, str], tuple[object, ...]]) -> Iterator[str]:
    """Find hits that differ in file, lines, node or length from the hit with the same id in another row."""
    for hit in row.hits:
        place = (hit.source, hit.line_start, hit.line_end, hit.node_id, hit.characters, hit.tokens)
        if places.setdefault((index, hit.id), place) != place:
            yield f"{hit.id!r} is a different passage in another row"


class _Checks:
    """The checks for one system's rows."""

    def __init__(
        self, run: RunData, predictor: PredictorRecord, system: System, index: IndexFacts | None
    ) -> None:
        self.system = system
        self.index = index
        self.top_k = run.record.top_k
        self.trace_depth = run.settings.trace_depth
        self.questions = run.scores.questions
        self.branches = {label(branch): branch for branch in system.searched}
        self.expands = any(branch.expand is not None for branch in system.searched)
        self.filtered = bool(run.record.filters)
        self.grows = system.passages.lines > 0

    def faults(self, row: Row) -> Iterator[str]:
        """Find everything in a successful row that the system could not have produced."""
        if not fits(self.system, row.stages):
            yield f"has the stages {', '.join(row.stages) or 'none'}, unlike the system {self.system.name!r}"
            return
        question = self.questions[row.question_id]
        yield from self._count_faults(row, question)
        for rank, hit in enumerate(row.hits, start=1):
            yield from (f"hit {rank}: {text}" for text in self._hit_faults(hit))
        yield from self._branch_faults(row)
        yield from self._gold_faults(row)
        yield from self._trace_faults(row)
        yield from self._call_faults(row)

    def _count_faults(self, row: Row, question: Question) -> Iterator[str]:
        excluded = sum(span.lines for span in question.excluded_spans)
        chunks = max(0, self.index.chunks - excluded) if self.index is not None else 0
        least = 0 if self.filtered else least_hits(self.system, self.top_k, chunks)
        if len(row.hits) < least:
            yield f"has {len(row.hits)} hits, but the system always finds at least {least}"
        ids = [hit.id for hit in row.hits]
        if len(set(ids)) < len(ids):
            yield "has the same hit twice"
        if any(after.score > before.score for before, after in zip(row.hits, row.hits[1:], strict=False)):
            yield "has scores that increase with the rank"

    def _hit_faults(self, hit: RowHit) -> Iterator[str]:
        if self.system.unit == "span":
            if hit.id != f"{hit.source}:{hit.line_start}-{hit.line_end}":
                yield f"the id {hit.id!r} does not match the lines"
        elif self.index is not None and not self.index.own_files:
            node, _, ordinal = hit.id.rpartition("@") if hit.id != hit.node_id else (hit.id, "", "1")
            if node != hit.node_id or not ordinal.isdecimal():
                yield f"the id {hit.id!r} does not match the node {hit.node_id!r}"
            elif node != hit.source and not node.startswith(f"{hit.source}#"):
                yield f"the node {node!r} is not in {hit.source}"
        score = fused_score(self.system, hit.branches)
        if score is not None and not isclose(score, hit.score, rel_tol=1e-9, abs_tol=1e-12):
            yield f"the score {hit.score:.9g} does not follow from the ranks in the branches"
        if not hit.branches and not self.expands:
            yield "no branch found it"
        for name, placed in hit.branches.items():
            branch = self.branches.get(name)
            if branch is None:
                yield f"has a rank in {name!r}, which is not a branch of the system"
                continue
            limit = depth_of(branch, self.top_k)
            if branch.expand is None and limit is not None and placed.rank > limit:
                yield f"has rank {placed.rank} in {name}, which returns at most {limit} hits"
            measured = branch.fused_unit == "chunk" and branch_kind(branch.kind).ranks_by == "vectors"
            if measured and (
                hit.distance is None
                or not isclose(hit.distance, squared_distance(placed.score), abs_tol=_SINGLE)
            ):
                yield f"the distance does not match the score in {name}"

    def _branch_faults(self, row: Row) -> Iterator[str]:
        placed = defaultdict(list)
        for hit in row.hits:
            for name, placement in hit.branches.items():
                placed[name].append((placement.rank, placement.score))
        for name, placements in placed.items():
            placements.sort()
            pairs = list(pairwise(placements))
            if not self.expands and any(before[0] == after[0] for before, after in pairs):
                yield f"has two hits with the same rank in {name}"
            elif any(after[1] > before[1] for before, after in pairs):
                yield f"has ranks in {name} that contradict its scores"

    def _gold_faults(self, row: Row) -> Iterator[str]:
        ranks, kept = row.gold_ranks, len(row.hits)
        first = next((rank for rank, hit in enumerate(row.hits, start=1) if hit.gold is not None), None)
        # The lines added around a ranked chunk can contain gold that the chunk does not contain.
        if self.system.unit != "span" and not self.grows and ranks.get(_PASSAGES) != first:
            yield f"has the gold at rank {ranks.get(_PASSAGES)} of the passages, but at {first} of the hits"
        cap = self.system.fuse.cap
        if cap:
            fused = ranks.get("fusion")
            if ranks.get("cap") != (fused if fused is not None and fused <= cap else None):
                yield "gives the gold a rank in the cap stage that contradicts its rank in the fusion stage"
        if self.system.unit == "chunk" and not self.grows:
            last = ranks.get(last_ranking(self.system))
            if (last if last is not None and last <= kept else None) != first:
                yield (
                    f"has the gold at rank {last} of {last_ranking(self.system)}, "
                    f"but at rank {first} of the hits"
                )
        for name, branch in self.branches.items():
            rank, limit = ranks.get(name), depth_of(branch, self.top_k)
            if rank is not None and limit is not None and rank > limit:
                yield f"has the gold at rank {rank} of {name}, which returns at most {limit} hits"
            if rank is not None and branch.expand is None and "fusion" not in ranks:
                yield f"gives the gold a rank in the branch {name}, but none in the fusion stage"
            if branch.fused_unit != "chunk":
                continue
            if self.grows:
                continue
            golden = [
                hit.branches[name].rank for hit in row.hits if hit.gold is not None and name in hit.branches
            ]
            if golden and (rank is None or rank > min(golden)):
                yield f"has the gold at rank {rank} of {name}, but a hit with gold at rank {min(golden)}"

    def _trace_faults(self, row: Row) -> Iterator[str]:
        if not self.trace_depth:
            if row.trace:
                yield "has a trace, but the settings turn traces off"
            return
        if tuple(dict.fromkeys(stage.stage for stage in row.trace)) != row.stages:
            yield "has traces whose stages differ from its list of stages"
            return
        lists = {stage.stage: stage for stage in row.trace}
        for stage in row.trace:
            if len(stage.keys) != len(stage.scores) or len(stage.keys) > self.trace_depth:
                yield f"has a trace of {stage.stage} that is too long or does not have one score per entry"
            if len(set(stage.keys)) < len(stage.keys):
                yield f"has the same entry twice in its trace of {stage.stage}"
            if _rises(stage.scores):
                yield f"has scores that increase with the rank in its trace of {stage.stage}"
        shown = [(hit.id, hit.score) for hit in row.hits[: self.trace_depth]]
        as_ranked = self.system.unit != "node" and not self.grows
        for name in (_PASSAGES, last_ranking(self.system)) if as_ranked else (_PASSAGES,):
            listed = list(zip(lists[name].keys, lists[name].scores, strict=False))[: len(shown)]
            if not _same(shown, listed):
                yield f"has different hits than its trace of {name}"
        for name, branch in self.branches.items():
            if not as_ranked or branch.fused_unit != self.system.unit:
                continue
            keys = lists[name].keys
            for hit in row.hits:
                placed = hit.branches.get(name)
                if placed is not None and placed.rank <= len(keys) and keys[placed.rank - 1] != hit.id:
                    yield f"has {hit.id!r} at a different rank than its trace of {name}"

    def _call_faults(self, row: Row) -> Iterator[str]:
        if row.calls and not self.system.asks_llm:
            yield "has LLM calls, but its system does not use an LLM"
        if len(row.calls) < least_calls(self.system, len(row.hits)):
            yield "does not contain the LLM calls that its system makes"
        if row.fallbacks and not self.system.asks_llm:
            yield "has a fallback, but its system does not use an LLM"


def _rises(scores: Sequence[float]) -> bool:
    return any(after > before for before, after in pairwise(scores))


def _same(hits: Sequence[tuple[str, float]], listed: Sequence[tuple[str, float]]) -> bool:
    return len(hits) == len(listed) and all(
        key == other and isclose(score, found, abs_tol=_TRACED)
        for (key, score), (other, found) in zip(hits, listed, strict=True)
    )
