"""The branch kind ``agent``: an LLM searches with tools, and the branch's list is what it cites.

Alone, the branch returns the cited passages (unit ``span``). In a fusion or before a reranker (unit
``chunk``), each passage stands for the chunks that overlap it, those with the most lines of it first.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from branchrank.core.records import SHOWN, Scored, Span
from branchrank.core.spec import AGENT, Branch
from branchrank.index.reader import Index
from branchrank.search.agent.loop import ask_agent
from branchrank.search.agent.tool_session import ToolSession
from branchrank.search.systems.branches import BranchKind, BranchResult, Lookup, Opening, Search
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.search_tools import SearchTools
from branchrank.search.systems.system_checks import depth
from branchrank.search.systems.toolbox import Toolbox


class AgentKind(BranchKind):
    """A search by an LLM with tools. Results are not reused, because replies can differ between repeats."""

    name = AGENT
    units = ("span", "chunk")
    waits = True
    remembered = False

    def problems(self, branch: Branch) -> list[str]:
        """Check the values of the options."""
        try:
            _ = branch.agent
        except msgspec.ValidationError as error:
            return [f"wrong options of agent: {error}"]
        return super().problems(msgspec.structs.replace(branch, options={}))

    def open(self, opening: Opening) -> Search:
        """Return the function that asks the agent.

        Its tools search the same index, with an engine of their own.
        """
        index = opening.index
        engine = opening.resources.enter_context(Engine(index, opening.corpus_root, opening.settings))
        tools = SearchTools(engine)

        def search(lookup: Lookup) -> BranchResult:
            agent, asked, sources = lookup.branch.agent, lookup.asked, lookup.sources
            assert asked.gateway is not None
            toolbox = Toolbox(tools.within(lookup.query), agent.tools)
            session = ToolSession(toolbox, sources.line_count, asked.trace.notify)
            # More entries are requested if the query excludes some, but the prompt must not depend on it.
            spans = ask_agent(asked, asked.gateway, agent, session, depth(lookup.branch, asked.k))
            asked.trace.add(SHOWN, "span", _ranked([span.citation for span in session.shown]))
            keys = [span.citation for span in spans]
            if lookup.branch.unit == "chunk":
                keys = list(dict.fromkeys(key for span in spans for key in _chunks_on(index, span)))
            return BranchResult(_ranked(keys))

        return search


def _chunks_on(index: Index, span: Span) -> Sequence[str]:
    """Return the ids of the chunks that overlap a passage, those with the most lines of it first."""
    rows = sorted(index.chunks.in_source(span.source).tolist())
    shared = {index.chunks.ids[row]: index.chunks.span(row).overlap(span) for row in rows}
    return sorted(filter(shared.__getitem__, shared), key=lambda chunk: -shared[chunk])


def _ranked(keys: Sequence[str]) -> list[Scored]:
    return [Scored(key, 1.0 / rank) for rank, key in enumerate(keys, start=1)]


AGENT_BRANCH = AgentKind()
