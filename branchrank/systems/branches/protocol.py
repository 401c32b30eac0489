"""The interface of a branch kind, and the objects that it gets.

1. The engine opens a kind once, when a system that names it is first run: :meth:`BranchKind.open` gets the
   index, the corpus's folder and the settings, and returns a search function. What it opens is closed with
   the engine.
2. For each query the engine calls that function with a :class:`Lookup`. It returns a :class:`BranchResult`
   whose entries are best first, ties by key. It may return more than ``n`` entries, or entries that the
   query excludes: the engine removes both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from branchrank.embedders.protocol import Vectors
from branchrank.records import Scored
from branchrank.settings import Resolved
from branchrank.spec import Branch, Unit
from branchrank.systems.query import Query

if TYPE_CHECKING:
    from branchrank.index import Index
    from branchrank.systems.llm_stages import BoundStages
    from branchrank.systems.sources import Sources

T = TypeVar("T")


class BranchResult(NamedTuple):
    """One branch's answer to one query.

    ``matched`` maps keys to the line numbers that matched, ``notes`` to how the score came about.
    ``found`` is the number of matches before any cut (``None``: the number of entries). ``notices`` are for
    the reader of the answer; ``incomplete`` says why a part of the corpus was not searched, and is empty
    otherwise.
    """

    ranking: Sequence[Scored]
    matched: Mapping[str, tuple[int, ...]] = {}
    notes: Mapping[str, str] = {}
    found: int | None = None
    notices: tuple[str, ...] = ()
    incomplete: str = ""


class Lookup(NamedTuple):
    """A query for one branch: with the number of entries requested, and the index's shared lookups."""

    query: Query
    branch: Branch
    n: int
    sources: Sources
    stages: BoundStages


Search = Callable[[Lookup], BranchResult]


Scores = Callable[[Lookup, Sequence[str]], Mapping[str, float]]
#: MaxSim of a query's token vectors, float32 ``(tokens, d)``, with chunks; those without tokens are left out.
MaxSim = Callable[[Vectors, Sequence[str]], Mapping[str, float]]


class Opening:
    """The objects that a kind uses to open its search. ``resources`` is closed with the engine."""

    def __init__(self, index: Index, corpus_root: Path, settings: Resolved, resources: ExitStack) -> None:
        self.index = index
        self.corpus_root = corpus_root
        self.settings = settings
        self.resources = resources
        self._shared: dict[Hashable, Any] = {}

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return an object that several kinds use; it is made once per engine."""
        if key not in self._shared:
            self._shared[key] = make()
        made: T = self._shared[key]
        return made


class BranchKind:
    """A kind of branch. Subclass it, set the attributes, and define :meth:`open`.

    ``units`` are what its entries can be: chunk ids, node ids, or spans (``source:first-last``).
    ``needs_vector``: it searches with the query's vector. ``waits``: it waits for a process or a server, so
    it runs beside the other branches. ``ranks_by`` says which evidence selects the passage of a section that
    the branch found. ``remembered``: equal queries have equal results, so a run computes each once.
    ``own_depth``: its settings bound its list, not ``top_n``. ``fills``: it returns as many entries as it is
    asked for while the index has them. ``options`` are the names of the options that it takes. ``scale`` says
    how score fusion takes its scores: ``fixed`` ones (a cosine) as they are, ``open`` ones (at least 0,
    without a maximum) as a share of the query's best, and ``none`` not at all. ``keeps_tokens``: its store
    can hold token vectors, of spans too (:meth:`open_maxsim`).
    """

    name: str = ""
    units: tuple[Unit, ...] = ("chunk",)
    needs_vector: bool = False
    waits: bool = False
    ranks_by: Literal["vectors", "words", "other"] = "other"
    remembered: bool = True
    own_depth: bool = False
    fills: bool = False
    scale: Literal["fixed", "open", "none"] = "none"
    keeps_tokens: bool = False
    shows_unit: bool = False
    options: tuple[str, ...] = ()

    def label(self, unit: Unit) -> str:
        """The name in traces and hits."""
        return f"{self.name}({unit}s)" if self.shows_unit else self.name

    def problems(self, branch: Branch) -> list[str]:
        """Describe the problems of a branch of this kind, except a wrong unit."""
        found = []
        if branch.tree is not None:
            found.append(f"`tree` settings belong to a branch of kind tree, not {self.name}")
        if branch.threshold is not None and not self.needs_vector:
            found.append(f"`threshold` is a distance between vectors; {self.name} has none")
        unknown = [name for name in branch.options if name not in self.options]
        return found + [f"{self.name} has no option {name!r}" for name in unknown]

    def open(self, opening: Opening) -> Search:
        """Open what the search needs and return the search."""
        raise NotImplementedError

    def open_scores(self, opening: Opening) -> Scores:
        """Open a function that scores any candidate of score fusion, including those of other branches.

        A key that the function leaves out keeps its score in the branch's list, or gets 0 if it is not in it.
        """
        return lambda lookup, keys: {}

    def open_maxsim(self, opening: Opening) -> MaxSim | None:
        """Return the late interaction of the store that the branch searches, or ``None`` if it has none."""
        return None
