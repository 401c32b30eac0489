"""The search modes of the terminal UI: the search tools and the available predictors. No terminal code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from branchrank.library import FileRefused, Found, Listener, ToolAnswer
from branchrank.records import Hit, Record
from branchrank.serve.service import Service

TOP = 10
SHOWN_LINES = 3


class Mode(Record, frozen=True, kw_only=True):
    """A way to search; ``search`` turns a query (and exact keywords) into an answer, best first."""

    name: str
    label: str
    search: Callable[[str, str], ToolAnswer]
    takes_keywords: bool = False


class SourceText(Record, frozen=True, kw_only=True):
    """A file's lines, or why it can't be read."""

    lines: tuple[str, ...]
    fault: str = ""


class Searches:
    """All modes over one workspace. Searches run one at a time, so that nothing is opened twice."""

    def __init__(self, service: Service) -> None:
        self._workspace = service.workspace
        self._tools = tools = service.workspace.tools
        self._lock = Lock()
        manifest = service.workspace.index.manifest
        root = service.workspace.folder.corpus_root
        self.title = f"{root.name}  {manifest.documents} documents, {manifest.chunks} chunks"

        def predictor(name: str) -> Mode:
            return Mode(
                name=f"predictor-{name}",
                label=f"Predictor {name}",
                search=lambda query, _: service.tool_search(query, name, TOP),
            )

        self.modes = (
            Mode(name="grep", label="Grep", search=lambda query, _: tools.grep_search(query)),
            Mode(name="vector", label="Vector", search=lambda query, _: tools.vector_search(query)),
            Mode(name="hybrid", label="Grep + vector", search=tools.hybrid_search, takes_keywords=True),
            *map(predictor, service.predictors),
        )

    @property
    def best(self) -> str:
        """The best available mode, in which the app starts.

        That is late-interaction if the index keeps token vectors (without them each query computes those of
        its candidates), hybrid if its LLM is configured, else local, else the last mode.
        """
        wanted = ["predictor-local"]
        if self._workspace.system("hybrid").asks_llm:
            wanted.insert(0, "predictor-hybrid")
        if self._workspace.index.token_vectors is not None:
            wanted.insert(0, "predictor-late-interaction")
        names = [mode.name for mode in self.modes]
        return next((name for name in wanted if name in names), names[-1])

    def mode(self, name: str) -> Mode:
        """The mode of this name."""
        (chosen,) = (entry for entry in self.modes if entry.name == name)
        return chosen

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` of every search from now on."""
        self._tools.listen(listener)

    def search(self, mode: str, query: str, keywords: str = "") -> Sequence[Found]:
        """The results of a query in a mode; ``keywords`` are for modes that take them."""
        with self._lock:
            return self.mode(mode).search(query, keywords).results

    def source(self, hit: Hit) -> SourceText:
        """The file that contains a hit."""
        try:
            text = self._tools.file_text(hit.source)
        except FileRefused as refusal:
            return SourceText(lines=(), fault=str(refusal))
        return SourceText(lines=tuple(line.removesuffix("\r") for line in text.split("\n")))


def why(found: Found) -> str:
    """A result's rank in each branch, and its score."""
    distance = [] if found.hit.distance is None else [f"distance {found.hit.distance:.3f}"]
    return "  ".join([*found.hit.reasons, f"score {found.hit.score:.4f}", *distance])


def preview(found: Found) -> list[tuple[int | None, str]]:
    """A few lines of a result: the matched ones with their numbers, else its first lines."""
    matched = found.hit.matched
    if matched:
        lines = found.lines.split("\n")
        first = found.hit.line_start
        return [(number, lines[number - first].strip()) for number in matched[:SHOWN_LINES]]
    telling = [line.strip() for line in found.hit.text.splitlines() if line.strip()]
    return [(None, line) for line in telling[:SHOWN_LINES]]
