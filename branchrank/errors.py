"""The errors that a user can cause, each with an exit code and the command that fixes it.

::

    BranchRankError                 1
    +-- UsageError                  2   a flag, setting or argument is wrong
    +-- InputError                  3   a file the user gave is wrong
    |   +-- CorpusError                 a corpus is missing, empty or unreadable
    |   +-- QuestionError               a question file is wrong (names the line)
    |   +-- RunError                    a run directory is missing, damaged or edited
    +-- ArtifactError               4   an index or other artefact is missing, stale or foreign
    |   +-- BusyError                   another process is building the index
    |   +-- LostCollectionError         the Chroma collection of an index was moved or deleted
    +-- MissingDependencyError      5   an optional package is not installed
    +-- ModelError                  6   an embedding or reranking model is not available
    +-- LLMError                    7   an LLM can't be reached, or a budget is spent
    |   +-- ReplayError                 a cassette does not contain a call
    +-- StorageError                8   the disk is full, read-only or failing
    +-- FailedRunError              9   a run was written, but a predictor or its LLM failed every time
    +-- WorkerError                11   a Ray cluster can't be reached, or workers keep ending

Exit code 130 means interrupted (Ctrl-C) and 143 terminated. ``branchrank gate`` exits with 0 (pass), 1 (fail)
or 10 (undecided).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path


class BranchRankError(Exception):
    """Base class of the errors that a user can fix.

    ``message`` describes the problem with its place and the wrong value; ``remedy`` is the command that fixes
    the problem.
    """

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the attributes, because the constructors of subclasses differ; workers send errors as
        pickles.
        """
        return _unpickled, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.remedy}" if self.remedy else self.message


class UsageError(BranchRankError):
    """A flag, setting or argument is wrong."""

    exit_code = 2


class InputError(BranchRankError):
    """A file that the user gave is wrong."""

    exit_code = 3


class CorpusError(InputError):
    """A corpus is missing, empty or unreadable."""


class QuestionError(InputError):
    """A question file is wrong; the message names the file and line."""


class RunError(InputError):
    """A run directory is missing, damaged or edited by hand."""


class ArtifactError(BranchRankError):
    """An index or other artefact is missing, stale, damaged or belongs to another corpus or model."""

    exit_code = 4


class BusyError(ArtifactError):
    """Another process has locked the artefact."""


class LostCollectionError(ArtifactError):
    """The Chroma collection of an index was moved or deleted; a query does not rebuild the collection."""


class MissingDependencyError(BranchRankError):
    """A package of an ``extra``, or a dependency of BranchRank, is not installed."""

    exit_code = 5

    def __init__(self, package: str, *, purpose: str, extra: str = "") -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed",
            remedy=f"pip install {_requirements(package, extra)}",
        )


class ModelError(BranchRankError):
    """An embedding or reranking model is not available, or differs from the expected model."""

    exit_code = 6


class LLMError(BranchRankError):
    """An LLM that a command needs can't be reached, or a budget is spent."""

    exit_code = 7


class ReplayError(LLMError):
    """A cassette does not contain a call; the message names the question, the stage and the differences."""


class StorageError(BranchRankError):
    """The disk is full, read-only or failing."""

    exit_code = 8


class FailedRunError(BranchRankError):
    """A run was written, but every query of a predictor or every call of its LLM failed."""

    exit_code = 9


class WorkerError(BranchRankError):
    """A Ray cluster can't be reached, workers can't be started, or the workers of a shard exit repeatedly."""

    exit_code = 11


def _unpickled(
    kind: type[BranchRankError], arguments: tuple[object, ...], attributes: dict[str, object]
) -> BranchRankError:
    """Restore a pickled error without calling its constructor."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


def _requirements(package: str, extra: str) -> str:
    """Return the requirements of an extra, or of the package if ``extra`` is empty, quoted for a shell.

    The requirements come from BranchRank's metadata. (``pip install branchrank[extra]`` does not work,
    because BranchRank is not published on a package index.)
    """
    from importlib import metadata  # not for each command

    try:
        listed = [each.partition(";") for each in metadata.requires("branchrank") or ()]
    except metadata.PackageNotFoundError:
        listed = []
    name = re.sub("[-_.]+", "-", package).lower()
    own = re.compile(rf"{re.escape(name)}(?![\w.-])")
    found = [
        f'"{requirement.strip()}"'
        for requirement, _, marker in listed
        if (f"extra == {extra!r}" in marker.replace('"', "'") if extra else not marker)
        and (extra or own.match(requirement))
    ]
    return " ".join(found) or name


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean `local`?`` for the known name nearest to ``name``, or "" when none is near."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name nearest to ``name``, or "" when none is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return near[0] if near else ""


def nearest_path(path: Path) -> str:
    """Return ``; did you mean `docs/questions.jsonl`?`` for the existing path nearest to ``path``, or "".

    Each part of the path that does not exist is replaced by the nearest existing name.
    """
    found = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts:
        try:
            names = [each.name for each in found.iterdir()] if not (found / part).exists() else [part]
        except OSError:
            return ""
        near = part if part in names else nearest(part, names)
        if not near:
            return ""
        found /= near
    return f"; did you mean `{found}`?" if found != path else ""


def or_else(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name, with the nearest name or a list of all names."""
    names = list(known)
    return f"; {suggestion(name, names) or 'choose from ' + (', '.join(names) or 'none')}"
