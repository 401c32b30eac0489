"""Find the gold's rank after every stage of a query, and the stage at which the gold was lost.

1. The gold's keys are the ids of the chunks and nodes that would count as strict hits. If the gold has line
   numbers, its keys are the ids of the chunks and nodes that overlap these lines. If the gold has only a
   quote, its keys are the ids of the chunks and nodes that contain the quote. The keys of file-level gold are
   the ids of all chunks and nodes in the file. In a list of passages, the keys are the passages themselves
   (``path:first-last``), and those of the gold are the passages that would count as strict hits.
2. The gold's rank after a stage is the best rank of any of the gold's keys in the stage's list. If a stage's
   list contains none of the gold's keys, the gold has no rank after this stage.
3. The gold was lost at the first stage in this list whose condition is true:

   - ``retrieval``: No branch found the gold.
   - ``mapping``: A chunk of the gold was found, but no node of the tree covers the chunk's lines.
   - ``cap``: The gold's rank in the fused list was too low for the gold to become a candidate.
   - ``group``: Only the best chunks of each document were kept, and the gold's chunk was dropped.
   - ``rerank``: The reranker moved the gold from the first k results to a lower rank.
   - ``fusion``: The gold was found, but ranked below the first k results.
   - ``passage``: The gold's section is in the first k results, but the passage returned from this section
     does not contain the gold.
   - ``passage order``: The passages of all candidates were sorted together, and other passages were ranked
     above the gold.

   An agent can also lose the gold at these stages, if no other branch found it:

   - ``tools``: No tool showed the agent a line of the gold.
   - ``citation``: A tool showed the gold, but the agent did not cite it.
   - ``citation order``: The agent cited the gold below the first k results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

import msgspec

from branchrank.core.ranked_lists import RankedList
from branchrank.core.records import SHOWN, UNPLACED, AgentLog, Hit, Question, Span, StageTrace
from branchrank.index.reader import Index
from branchrank.runs.rows import Row
from branchrank.scoring.matching import is_strict
from branchrank.search.systems.query import Trace

#: The k of hit@k. The gold counts as found if one of the first k hits overlaps the gold.
DEPTH = 5
#: The losses of an agent, each with what it means.
AGENT_LOSSES = {"tools": "never shown", "citation": "shown but not cited", "citation order": "cited too low"}
LOSSES = (
    *("retrieval", "mapping", *AGENT_LOSSES),
    *("fusion", "cap", "group", "rerank", "passage", "passage order"),
)
_Passages = Iterable[tuple[str, Span | None, str]]


def gold_keys(question: Question, index: Index, lines: Callable[[str], Sequence[str]]) -> frozenset[str]:
    """Return the ids of the chunks and nodes that overlap the question's gold in one index.

    ``lines`` returns the lines of a document, because a quote matches raw text as well as plain text.
    """

    def entries(sources: Collection[str]) -> _Passages:
        chunks = ((chunk.id, chunk.span, chunk.text) for chunk in index.chunks.of_sources(sources))
        nodes = ((node.id, node.own_span, node.text) for node in index.tree.of_sources(sources))
        return chain(chunks, nodes)

    return frozenset(key for key, _ in _strict(question, entries, lines))


def gold_passages(
    question: Question, trace: Iterable[StageTrace], lines: Callable[[str], Sequence[str]]
) -> dict[str, set[int]]:
    """Return the passages (``path:first-last``) in a trace that match gold, with the items that each matches.

    ``lines`` returns the lines of a document.
    """
    keys = dict.fromkeys(key for stage in trace if stage.unit == "span" for key in stage.keys)
    by_source = defaultdict[str, list[tuple[str, Span | None, str]]](list)
    for key, span in zip(keys, map(Span.of, keys), strict=True):
        by_source[span.source].append((key, span, ""))
    found = defaultdict[str, set[int]](set)
    for key, item in _strict(question, lambda sources: chain(*map(by_source.__getitem__, sources)), lines):
        found[key].add(item)
    return found


def unseen_groups(
    question: Question, trace: Iterable[StageTrace], passages: Mapping[str, Collection[int]]
) -> tuple[int, ...]:
    """Return the groups of ``needs`` (counted from 1) of which no tool showed an agent a line.

    ``passages`` has the gold items of each passage. The result is empty for predictors that are not agents.
    """
    shown = [
        {item for key in stage.keys for item in passages.get(key, ())}
        for stage in trace
        if stage.stage == SHOWN
    ]
    groups = enumerate(question.needs, start=1)
    return tuple(place for place, group in groups if shown and shown[0].isdisjoint(group))


def _strict(
    question: Question, entries: Callable[[Collection[str]], _Passages], lines: Callable[[str], Sequence[str]]
) -> Iterator[tuple[str, int]]:
    """Yield the key of each entry that matches a gold item strictly, and the index of the item.

    ``entries`` returns the keys, lines and plain texts of the entries in some documents.
    """
    lines = cache(lines)
    for number, item in enumerate(question.gold):
        for key, span, plain in entries({item.source_file, *question.source_aliases}):
            if span is None:
                continue
            raw = "\n".join(lines(span.source)[span.line_start - 1 : span.line_end])
            hit = Hit(id=key, text=raw, plain=plain, score=0.0, **msgspec.structs.asdict(span))
            if is_strict(hit, item, question):
                yield key, number


def agent_trace(agent: AgentLog, hits: Iterable[Hit]) -> tuple[StageTrace, ...]:
    """Return the stages of an agent that returns no trace: what it was shown, and what it cited."""
    shown = dict.fromkeys(key for step in agent.steps for key in step.shown)
    cited = dict.fromkeys(hit.span.citation for hit in hits if hit.source != UNPLACED)
    trace = Trace()
    trace.add(SHOWN, "span", RankedList.in_order(shown))
    trace.add("agent", "span", RankedList.in_order(cited))
    return tuple(trace.stages)


def gold_ranks(trace: Iterable[StageTrace], keys: frozenset[str]) -> dict[str, int]:
    """Return the gold's best rank (from 1) in the list of each stage that contains the gold."""
    ranks: dict[str, int] = {}
    for stage in trace:
        rank = next((rank for rank, key in enumerate(stage.keys, start=1) if key in keys), None)
        if rank is not None:
            ranks[stage.stage] = min(rank, ranks.get(stage.stage, rank))
    return ranks


def lost_at(stages: Sequence[str], ranks: dict[str, int], found: bool, *, answered: bool = True) -> str:
    """Return the stage at which the gold was lost, or "" if the first five hits contain the gold.

    An agent that has not ``answered`` has cited nothing.
    """
    if found:
        return ""
    if SHOWN not in stages:
        return _lost(stages, ranks)
    if not ranks.keys() - {SHOWN}:
        return "citation" if SHOWN in ranks else "tools"
    lost = _lost(stages, ranks)
    is_alone = list(stages[2:3]) in ([], ["fusion"])
    if is_alone and lost == "fusion":
        return "citation order" if answered else "citation"
    return lost


def lost_words(lost: str) -> str:
    """Return where the gold was lost in words, such as ``lost at citation (shown but not cited)``."""
    return f"lost at {lost}{f' ({AGENT_LOSSES[lost]})' if lost in AGENT_LOSSES else ''}"


def _lost(stages: Sequence[str], ranks: dict[str, int]) -> str:
    kept = [stage for stage in stages if stage in ("fusion", "cap", "group", "rerank")]
    if not kept:
        return "fusion"
    last = kept[-1]
    near = last in ranks and ranks[last] <= DEPTH
    if "passage order" in ranks and (near or "rerank" not in stages):
        return "passage order" if ranks["passage order"] > DEPTH else "passage"
    if near:
        return "passage"
    if "fusion" not in ranks:
        return "mapping" if ranks else "retrieval"
    for stage in ("cap", "group"):
        if stage in stages and stage not in ranks:
            return stage
    before = [stage for stage in ("fusion", "cap", "group") if stage in stages][-1]
    if "rerank" in stages and ranks[before] <= DEPTH:
        return "rerank"
    return "fusion"


def lost_in(row: Row) -> str:
    """Return the stage at which a row's gold was lost.

    Older versions of BranchRank stored ``passage order`` as ``passage``.
    """
    return lost_at(row.stages, row.gold_ranks, found=False) if row.lost == "passage" else row.lost


def waterfall(rows: Sequence[Row]) -> list[tuple[str, float, float]]:
    """For each stage, return two shares of one predictor's rows.

    The first is the share of rows whose gold is in the stage's ranked list, and the second is the share of
    rows whose gold is in the first five entries of the list.
    """
    count = len(rows) or 1
    return [
        (
            stage,
            sum(stage in row.gold_ranks for row in rows) / count,
            sum(row.gold_ranks.get(stage, DEPTH + 1) <= DEPTH for row in rows) / count,
        )
        for stage in _in_order(rows)
    ]


def _in_order(rows: Sequence[Row]) -> list[str]:
    """Merge the stage lists of all rows into one list that keeps the order of the stages in each row."""
    order: list[str] = []
    for row in rows:
        for place, stage in enumerate(row.stages):
            if stage not in order:
                following = next((each for each in row.stages[place + 1 :] if each in order), None)
                order.insert(len(order) if following is None else order.index(following), stage)
    return order
