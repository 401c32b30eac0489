"""The kinds of branches. A branch turns a query into a ranked list.

1. The engine calls :meth:`BranchKind.open` once for each branch kind, before the first search with that kind.
   :meth:`BranchKind.open` receives the index, the corpus folder and the settings, and returns a search
   function. Closing the engine also closes the resources that the search functions use.
2. For each query, the engine calls the search function with a :class:`Lookup`. The search function returns a
   :class:`BranchResult`, sorted by score, with ties sorted by key. The engine removes surplus entries and
   entries that the query excludes.

The built-in branch kinds are in the modules of this package. An installed package can add a branch kind with
an entry point in the group ``branchrank.branches``. The entry point's name is the name of the branch kind,
and the entry point's value is an instance of :class:`BranchKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from branchrank.core.records import Scored
from branchrank.core.registry import Registry
from branchrank.core.settings import Resolved
from branchrank.core.spec import AGENT, Branch, Unit
from branchrank.index.embedders.protocol import Vectors
from branchrank.search.systems.query import Asked, Query

if TYPE_CHECKING:
    from branchrank.index.reader import Index
    from branchrank.search.systems.sources import Sources

T = TypeVar("T")


class BranchResult(NamedTuple):
    """One branch's answer to one query.

    ``matched`` maps each result's key to the line numbers of the result's matching lines. ``notes`` maps each
    result's key to an explanation of the result's score. ``found`` is the number of matches before the list
    was truncated, or ``None`` if the list was not truncated. ``notices`` are messages for the user.
    ``incomplete`` is the reason why a part of the corpus was not searched, or an empty string. ``removed``
    contains the keys of the first k entries that overlap an excluded span. ``unavailable`` is true if the
    searched store has nothing that this branch could search, such as sparse vectors.
    """

    ranking: Sequence[Scored]
    matched: Mapping[str, tuple[int, ...]] = {}
    notes: Mapping[str, str] = {}
    found: int | None = None
    notices: tuple[str, ...] = ()
    incomplete: str = ""
    removed: tuple[str, ...] = ()
    unavailable: bool = False


class Lookup(NamedTuple):
    """A query for one branch.

    ``n`` is the number of requested entries. ``sources`` provides vectors, scores and texts from the index.
    ``asked`` contains the system, its LLM and the trace.
    """

    query: Query
    branch: Branch
    n: int
    sources: Sources
    asked: Asked


Search = Callable[[Lookup], BranchResult]


Scores = Callable[[Lookup, Sequence[str]], Mapping[str, float]]
#: A function that maps keys to MaxSim scores for a query's token vectors (float32, ``(tokens, d)``).
MaxSim = Callable[[Vectors, Sequence[str]], Mapping[str, float]]


class Opening:
    """The objects that a branch kind needs to create its search function.

    Closing the engine also closes ``resources``.
    """

    def __init__(self, index: Index, corpus_root: Path, settings: Resolved, resources: ExitStack) -> None:
        self.index = index
        self.corpus_root = corpus_root
        self.settings = settings
        self.resources = resources
        self._shared: dict[Hashable, Any] = {}

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return an object that several branch kinds use, such as an open Qdrant collection.

        The object is created with ``make`` on the first call, and reused on later calls with the same
        ``key``.
        """
        if key not in self._shared:
            self._shared[key] = make()
        made: T = self._shared[key]
        return made


class BranchKind:
    """Base class of branch kinds. A subclass sets the attributes and defines :meth:`open`.

    - ``name`` is the value of ``Branch.kind`` that selects this branch kind.
    - ``units`` lists the units that a branch of this kind can return. The keys of the returned entries are
      chunk ids, node ids or spans (``source:first-last``).
    - ``needs_vector`` is true if the branch searches with the query's vector.
    - ``waits`` is true if the branch waits for a process or a server. If a system has a branch that waits for
      a process or a server, the engine runs the system's branches in parallel.
    - ``ranks_by`` is the evidence used to choose a section's best passage (``vectors``, ``words`` or
      ``other``).
    - ``remembered`` is true if identical queries always return identical results, so that the engine can
      reuse the results.
    - ``own_depth`` is true if the kind's settings, not ``top_n``, limit the length of the list.
    - ``scale`` determines how score fusion treats the scores. ``cosine`` scores are cosine similarities of
      the index's model, which are converted to a scale that all models share. ``fixed`` scores are not
      scaled. ``open`` scores are unbounded, so they are divided by twice the branch's best score for the
      query. Branches with the scale ``none`` can't be fused by score.
    - ``keeps_tokens`` is true if the searched store can contain token vectors (see :meth:`open_maxsim`).
    - ``shows_unit`` is true if the label includes the unit, as in ``dense(chunks)``.
    - ``options`` lists the options that a branch of this kind accepts.
    """

    name: str = ""
    units: tuple[Unit, ...] = ("chunk",)
    needs_vector: bool = False
    waits: bool = False
    ranks_by: Literal["vectors", "words", "other"] = "other"
    remembered: bool = True
    own_depth: bool = False
    scale: Literal["cosine", "fixed", "open", "none"] = "none"
    keeps_tokens: bool = False
    shows_unit: bool = False
    options: tuple[str, ...] = ()

    def label(self, unit: Unit) -> str:
        """Return the name of a branch in traces and hits, such as ``dense(chunks)``."""
        return f"{self.name}({unit}s)" if self.shows_unit else self.name

    def problems(self, branch: Branch) -> list[str]:
        """Return a message for each problem with a branch of this kind.

        The branch's unit is checked by :func:`branchrank.search.systems.system_checks.problems`, not by this
        method.
        """
        found = []
        if branch.tree is not None:
            found.append(f"`tree` settings belong to a branch of kind tree, not {self.name}")
        if branch.threshold is not None and not self.needs_vector:
            found.append(f"`threshold` is a distance between vectors, which {self.name} does not use")
        if branch.index and not self.needs_vector:
            found.append(f"`index` selects the vectors to search, which {self.name} does not use")
        unknown = [name for name in branch.options if name not in self.options]
        return found + [f"{self.name} has no option {name!r}" for name in unknown]

    def require(self, settings: Resolved) -> None:
        """Raise :class:`~branchrank.core.errors.MissingDependencyError` if a package for this kind is
        missing."""

    def open(self, opening: Opening) -> Search:
        """Open the resources that the search needs, and return the search function."""
        raise NotImplementedError

    def open_scores(self, opening: Opening) -> Scores:
        """Return a function that scores candidates for score fusion.

        The candidates include entries that this branch did not find. The function does not have to score
        every candidate. A candidate that the function does not score keeps the score from this branch's list,
        or scores 0 if the list does not contain the candidate.
        """
        return lambda lookup, keys: {}

    def open_maxsim(self, opening: Opening) -> MaxSim | None:
        """Return a function that computes MaxSim in the searched store, or ``None`` if the store can't."""
        return None


#: All branch kinds by name. The module of a built-in kind is imported on first use.
KINDS = Registry[BranchKind](
    "branch kind",
    "branches",
    {
        "dense": f"{__name__}.indexed:DENSE",
        "bm25": f"{__name__}.indexed:BM25",
        "fts5": f"{__name__}.indexed:FTS5",
        "grep": f"{__name__}.indexed:GREP",
        "qdrant-dense": f"{__name__}.qdrant_branches:QDRANT_DENSE",
        "qdrant-sparse": f"{__name__}.qdrant_branches:QDRANT_SPARSE",
        "tree": f"{__name__}.tree:TREE",
        AGENT: "branchrank.search.agent.loop:AGENT_BRANCH",
    },
    kind=BranchKind,
)
branch_kind = KINDS.get


def label(branch: Branch) -> str:
    """Return the branch's name in traces and hits, such as ``dense(chunks)``, ``grep`` or ``dense@e5``."""
    name = branch_kind(branch.kind).label(branch.unit)
    return f"{name}@{branch.index}" if branch.index else name
