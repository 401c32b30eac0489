"""What the terminal UI searches with: the three tools, and the predictors that can run. Knows no terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from branchrank.files.read_file import FileReader, FileRefused
from branchrank.records import Hit, Record
from branchrank.serve.service import Service
from branchrank.systems.search_tools import Found, Listener, SearchStatus, SearchTools

TOP = 10
SHOWN_LINES = 3


class Mode(Record, frozen=True, kw_only=True):
    """A way to search; ``search`` turns a query into results, best first."""

    name: str
    label: str
    search: Callable[[str], Sequence[Found]]


class SourceText(Record, frozen=True, kw_only=True):
    """A file's lines, or why it can't be read."""

    lines: tuple[str, ...]
    fault: str = ""


class Searches:
    """Every mode over one corpus. Searches take turns, so that nothing is opened twice."""

    def __init__(self, tools: SearchTools, service: Service, root: Path) -> None:
        self._tools = tools
        self._service = service
        self._reader = FileReader([root])
        self._listeners: list[Listener] = []
        self._lock = Lock()
        manifest = service.index.manifest
        self.title = f"{root.name}  {manifest.documents} documents, {manifest.chunks} chunks"
        self.modes = (
            Mode(name="grep", label="Grep", search=lambda query: tools.grep_search(query).results),
            Mode(name="vector", label="Vector", search=lambda query: tools.vector_search(query).results),
            Mode(name="hybrid", label="Hybrid", search=lambda query: tools.hybrid_search(query).results),
            *(self._predictor(name) for name in service.predictors),
        )

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` of every search from now on."""
        self._tools.listen(listener)
        self._listeners.append(listener)

    def search(self, mode: str, query: str) -> Sequence[Found]:
        """The results of a query in a mode."""
        (chosen,) = (entry for entry in self.modes if entry.name == mode)
        with self._lock:
            return chosen.search(query)

    def source(self, hit: Hit) -> SourceText:
        """The file that a hit lies in."""
        try:
            text = self._reader.text(hit.source)
        except FileRefused as refusal:
            return SourceText(lines=(), fault=str(refusal))
        return SourceText(lines=tuple(line.removesuffix("\r") for line in text.split("\n")))

    def _predictor(self, name: str) -> Mode:
        def search(query: str) -> Sequence[Found]:
            _, retrieval = self._service.retrieve(query, TOP, name)
            status = SearchStatus(
                tool=f"predictor {name}",
                characters=sum(len(hit.text) for hit in retrieval.hits),
                count=len({hit.id for hit in retrieval.hits}),
                unit="chunks",
                notices=tuple(f"fallback: {fallback}" for fallback in retrieval.fallbacks),
            )
            for listener in self._listeners:
                listener(status)
            return [Found(hit=hit) for hit in retrieval.hits]

        return Mode(name=f"predictor-{name}", label=f"Predictor {name}", search=search)


def why(found: Found) -> str:
    """A result's score and its place in each branch."""
    places = [f"{name} #{place.rank}" for name, place in sorted(found.hit.branches.items())]
    distance = [] if found.hit.distance is None else [f"distance {found.hit.distance:.3f}"]
    return "  ".join([f"score {found.hit.score:.4f}", *distance, *places])


def preview(found: Found) -> list[tuple[int | None, str]]:
    """A few telling lines of a result: the matched ones with their numbers, else how it begins."""
    if found.matched:
        lines = found.lines.split("\n")
        first = found.hit.line_start
        return [(number, lines[number - first].strip()) for number in found.matched[:SHOWN_LINES]]
    telling = [line.strip() for line in found.hit.text.splitlines() if line.strip()]
    return [(None, line) for line in telling[:SHOWN_LINES]]
