"""The errors that a user can fix. Each class has an exit code, and each error suggests a fix.

::

    BranchRankError                 1
    +-- ChildError                      a program or class of the user failed for one question
    +-- UsageError                  2   a flag, setting or argument is invalid
    |   +-- Problems                    several of them are
    +-- InputError                  3   an input file is missing or invalid
    |   +-- CorpusError                 a corpus is missing, empty or unreadable
    |   +-- QuestionError               a question file is invalid
    |   +-- RunError                    a run directory is missing, damaged or edited
    +-- ArtifactError               4   an index or other artifact is missing, stale or damaged
    |   +-- BusyError                   another process is building the index
    |   +-- LostCollectionError         the Chroma collection of an index was moved or deleted
    +-- MissingDependencyError      5   an optional package is not installed
    +-- ModelError                  6   an embedding or reranking model is not available
    +-- LLMError                    7   an LLM can't be reached, or a budget is spent
    |   +-- ReplayError                 a cassette does not contain a call
    +-- StorageError                8   the disk is full, read-only or failing
    +-- FailedRunError              9   all queries or all LLM calls of a predictor failed
    +-- WorkerError                11   a Ray cluster can't be reached, or workers exit repeatedly

Exit code 130 means that the process was interrupted (Ctrl-C). Exit code 143 means that the process was
terminated. ``branchrank gate`` exits with 0 (pass), 1 (fail) or, with
``--fail-undecided``, 10 (undecided).
"""

from __future__ import annotations

import copyreg
import difflib
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, SupportsIndex, TypeAlias


class Remedy(NamedTuple):
    """One way to fix an error, which each command describes with the flags that it has.

    Example: ``Remedy("use {}", "--embedder", "fake:64")``. A command that has no ``--embedder`` names the
    key in ``branchrank.toml``.
    """

    #: What to do, as text. ``{}`` is replaced with the flags and the value.
    text: str
    #: Flags, separated with spaces. The user needs one of them.
    flags: str = ""
    #: The value of the flag.
    value: str = ""
    #: Whether the remedy is an alternative to the one before it. False: both are needed.
    instead: bool = True

    def __str__(self) -> str:
        return self.naming(self.flags.split())

    def naming(self, flags: Iterable[str]) -> str:
        """Return the text with other flags in place of the remedy's own flags."""
        return self.text.replace("{}", " ".join(filter(None, (" or ".join(flags), self.value))), 1)


#: The remedies of an error. A text is a remedy without flags.
Remedies: TypeAlias = str | Remedy | Iterable[str | Remedy]


def remedy_text(remedies: Iterable[Remedy], describe: Callable[[Remedy], str] = str) -> str:
    """Join remedies: ``or`` between alternatives, ``;`` between remedies that are all needed.

    A remedy for which ``describe`` returns an empty string is left out.
    """
    groups: list[list[str]] = []
    for remedy in remedies:
        if not groups or not remedy.instead:
            groups.append([])
        groups[-1] += filter(None, [describe(remedy)])
    listed = [(", ".join(texts[:-1]), texts[-1]) for texts in groups if texts]
    return "; ".join(", or ".join(filter(None, texts)) for texts in listed)


class BranchRankError(Exception):
    """Base class of the errors that a user can fix.

    ``message`` describes what is wrong and where, and shows the invalid value. ``remedies`` are the commands
    or changes that fix the problem, and ``remedy`` is their text.
    """

    exit_code = 1

    def __init__(self, message: str, *, remedy: Remedies = ()) -> None:
        super().__init__(message)
        self.message = message
        listed = (remedy,) if isinstance(remedy, str | Remedy) else remedy
        self.remedies = tuple(Remedy(each) if isinstance(each, str) else each for each in listed if each)

    @property
    def remedy(self) -> str:
        """The remedies as text."""
        return remedy_text(self.remedies)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error as its attributes, because the subclasses have different constructors."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return f"{self.message}\n  fix: {self.remedy}" if self.remedy else self.message


class UsageError(BranchRankError):
    """Error for an invalid flag, setting or argument."""

    exit_code = 2


class Problems(UsageError):
    """Error for several invalid values at once, which the message lists below its first line."""

    def __init__(self, first: str, problems: Sequence[str], *, remedy: Remedies = ()) -> None:
        super().__init__("\n  - ".join((first, *problems)), remedy=remedy)
        self.problems = tuple(problems)


class InputError(BranchRankError):
    """Error for a missing or invalid input file."""

    exit_code = 3


class CorpusError(InputError):
    """Error for a corpus that is missing, empty or unreadable."""


class QuestionError(InputError):
    """Error for an invalid question file. The message gives the file's path and the line number."""


class RunError(InputError):
    """Error for a run directory that is missing, damaged or edited by hand."""


class ArtifactError(BranchRankError):
    """Error for an index or other artifact that is missing, stale, damaged or built from different data."""

    exit_code = 4


class BusyError(ArtifactError):
    """Error for an artifact that another process has locked."""


class LostCollectionError(ArtifactError):
    """Error for an index whose Chroma collection was moved or deleted. A query never rebuilds the index."""


class ChildError(BranchRankError):
    """Error for a query whose child process failed, exited or did not answer in time."""


class MissingDependencyError(BranchRankError):
    """Error for a required Python package that is not installed.

    ``extra`` is the name of the BranchRank extra that installs the package.
    """

    exit_code = 5

    def __init__(self, package: str, *, purpose: str, extra: str = "") -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed",
            remedy=_install(package, extra),
        )


class ModelError(BranchRankError):
    """Error for an embedding or reranking model that is not available or is not the expected model."""

    exit_code = 6


class LLMError(BranchRankError):
    """Error for an LLM that can't be reached, or for an LLM budget that has been spent."""

    exit_code = 7


class ReplayError(LLMError):
    """Error for an LLM call that is not in the cassette."""


class StorageError(BranchRankError):
    """Error for a disk that is full, read-only or failing."""

    exit_code = 8


class FailedRunError(BranchRankError):
    """Error for a finished run in which all queries or all LLM calls of a predictor failed."""

    exit_code = 9


class WorkerError(BranchRankError):
    """Error for an unreachable Ray cluster, or for workers that exit repeatedly or can't be started."""

    exit_code = 11


def _install(package: str, extra: str) -> str:
    """Return the command that installs an extra's packages or, if ``extra`` is empty, ``package``.

    ``pip install branchrank[extra]`` would fail, because BranchRank is not published on a package index. An
    environment without pip was made by uv.
    """
    from importlib import metadata, util  # imported here because few commands need them

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
    return f"{'' if util.find_spec('pip') else 'uv '}pip install {' '.join(found) or name}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return text such as ``did you mean `local`?``, or an empty string if no known name is similar."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else ""


#: Characters of an unknown name that are compared with the known names.
_LONGEST_NAME = 200


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to ``name`` or has it as a word, or an empty string."""
    names = list(known)
    near = difflib.get_close_matches(name[:_LONGEST_NAME], names, n=1)
    near = near or [each for each in names if name in re.split("[-_]", each)]
    return near[0] if near else ""


def first_line(error: Exception) -> str:
    """Return the kind of another package's error and the first line of its message, shortened."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def or_else(name: str, known: Iterable[str]) -> str:
    """Return text such as ``; did you mean `local`?`` to append to a message about an unknown name.

    If the unknown name is not similar to any known name, the text lists all known names.
    """
    names = list(known)
    return f"; {suggestion(name, names) or 'choose from ' + (', '.join(names) or 'none')}"


def at_least_one(name: str, value: SupportsIndex, example: int = 5) -> int:
    """Return a number as an ``int``. Raises :class:`UsageError` if it is below 1."""
    number = operator.index(value)
    if number < 1:
        raise UsageError(f"{name} = {number}; at least 1", remedy=f"{name}={example}")
    return number


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise :class:`UsageError` if a value is not one of ``choices``."""
    if value not in choices:
        near = or_else(str(value), choices)
        raise UsageError(f"{name} = {value!r}{near}", remedy=f'{name}="{choices[0]}"')
