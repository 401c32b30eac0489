"""The search modes of the terminal UI. Each search tool and each available predictor is a mode."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from branchrank.core.records import Hit, Record
from branchrank.frontends.serve.service import Service
from branchrank.runs.words import plural
from branchrank.search.files.read_file import FileRefused
from branchrank.search.systems.search_tools import Found, ToolAnswer

TOP = 10
SHOWN_LINES = 3


class Mode(Record, frozen=True, kw_only=True):
    """A search mode.

    ``search`` is a function that takes a query and exact keywords and returns results, best first.
    """

    name: str
    label: str
    search: Callable[[str, str], ToolAnswer]
    takes_keywords: bool = False


class Searches:
    """All search modes of one workspace. Only one search runs at a time, so that no index is opened twice."""

    def __init__(self, service: Service) -> None:
        self._workspace = service.workspace
        self.tools = tools = service.workspace.tools
        self._lock = Lock()
        manifest = service.workspace.index.manifest
        root = service.workspace.folder.corpus_root
        size = f"{plural(manifest.documents, 'document')}, {plural(manifest.chunks, 'chunk')}"
        self.title = f"{root.name}  {size}"

        def predictor(name: str) -> Mode:
            return Mode(
                name=f"predictor-{name}",
                label=f"Predictor {name}",
                search=lambda query, _: service.tool_search(query, name, TOP),
            )

        modes = (
            Mode(name="grep", label="Grep", search=lambda query, _: tools.grep_search(query)),
            Mode(name="vector", label="Vector", search=lambda query, _: tools.vector_search(query)),
            Mode(name="hybrid", label="Grep + vector", search=tools.hybrid_search, takes_keywords=True),
            *map(predictor, service.predictors),
        )
        self.modes = {mode.name: mode for mode in modes}

    @property
    def best(self) -> str:
        """The name of the search mode in which the app starts.

        The app prefers late-interaction to hybrid, and hybrid to local. Late-interaction is chosen only if
        the index has token vectors, because late-interaction is slow without them. Hybrid is chosen only if
        its LLM is configured. If late-interaction, hybrid and local are all unavailable, the app starts in
        the last mode in :attr:`modes`.
        """
        wanted = ["predictor-local"]
        if self._workspace.system("hybrid").asks_llm:
            wanted.insert(0, "predictor-hybrid")
        if self._workspace.index.token_vectors is not None:
            wanted.insert(0, "predictor-late-interaction")
        return next((name for name in wanted if name in self.modes), [*self.modes][-1])

    def search(self, mode: str, query: str, keywords: str = "") -> ToolAnswer:
        """Run a query in a search mode.

        Modes without a keyword box ignore ``keywords``.
        """
        with self._lock:
            return self.modes[mode].search(query, keywords)

    def source(self, hit: Hit) -> list[str]:
        """Return the lines of the file that contains a hit, or the reason why the file can't be read."""
        try:
            text = self.tools.file_text(hit.source)
        except FileRefused as refusal:
            return [str(refusal)]
        return [line.removesuffix("\r") for line in text.split("\n")]


def why(found: Found) -> str:
    """Return one line that shows a result's rank in each branch, the score and the distance."""
    distance = [] if found.hit.distance is None else [f"distance {found.hit.distance:.3f}"]
    return "  ".join([*found.hit.reasons, f"score {found.hit.score:.4f}", *distance])


def preview(found: Found) -> list[tuple[int | None, str]]:
    """Return a few lines of a result's text for the list of results.

    For a result with matched lines, the first matched lines are returned with their line numbers. For a
    result without matched lines, the first non-blank lines are returned, with ``None`` in place of line
    numbers.
    """
    matched = found.hit.matched
    if matched:
        lines = found.hit.text.split("\n")
        first = found.hit.line_start
        return [(number, lines[number - first].strip()) for number in matched[:SHOWN_LINES]]
    telling = [line.strip() for line in found.hit.plain.splitlines() if line.strip()]
    return [(None, line) for line in telling[:SHOWN_LINES]]
