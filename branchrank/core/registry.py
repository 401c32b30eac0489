"""The objects of one kind, such as all readers, by name: built-in ones, and those of installed packages.

1. A built-in object is given by its module and its name in the module. It is imported on first use.
2. An installed package adds an object with an entry point in the registry's group. The entry point's name is
   the name of the object.
3. A name has one object. An installed object with the name of another object is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, NamedTuple, TypeVar, cast

from branchrank.core.errors import Remedy, UsageError, or_else

T = TypeVar("T")


class Plugin(NamedTuple):
    """An object of an installed package."""

    #: What the object is, such as ``reader``.
    kind: str
    #: The name of the entry point.
    name: str
    package: str
    version: str
    #: Why the object can't be used, or an empty string.
    error: str


class Registry(Generic[T]):
    """A registry of objects of the type ``T``."""

    def __init__(
        self,
        noun: str,
        group: str,
        builtin: Mapping[str, str],
        *,
        kind: type = object,
        flag: str = "",
        named: Callable[[str], str] = str,
    ) -> None:
        #: What an object is called in messages, such as ``reader``.
        self.noun = noun
        #: The group of the entry points, such as ``branchrank.readers``.
        self.group = f"branchrank.{group}"
        #: ``MODULE:OBJECT`` by name. It is empty for an object that its room makes without this registry.
        self.builtin = builtin
        #: The class of the objects.
        self.kind = kind
        #: The flag that selects an object, if any.
        self.flag = flag
        self._named = named
        self._objects: dict[str, T] = {}

    @cached_property
    def installed(self) -> Mapping[str, EntryPoint]:
        """The entry points by the name of the object. Searching the installed packages takes 50 ms.

        Raises :class:`UsageError` for a name that has two objects.
        """
        entries: dict[str, EntryPoint] = {}
        for entry in entry_points(group=self.group):
            self._check_name(entry, entries)
            entries[self._named(entry.name)] = entry
        return entries

    def _check_name(self, entry: EntryPoint, others: Mapping[str, EntryPoint]) -> None:
        name = self._named(entry.name)
        other = others.get(name)
        if name in self.builtin or (other and other.value != entry.value):
            raise UsageError(
                f"the installed {self.noun} {entry.value} has the name {name!r}, which belongs to "
                f"{other.value if other else 'BranchRank'}",
                remedy="uninstall the package that provides it, or change the name of its entry point",
            )

    def plugins(self) -> list[Plugin]:
        """Import and list the objects of installed packages, also those that are refused."""
        plugins: list[Plugin] = []
        entries: dict[str, EntryPoint] = {}
        for entry in entry_points(group=self.group):
            error = ""
            try:
                self._check_name(entry, entries)
                self.load(entry)
            except UsageError as refusal:
                error = refusal.message
            entries.setdefault(self._named(entry.name), entry)
            package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("", "")
            plugins.append(Plugin(self.noun, entry.name, package, version, error))
        return plugins

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all objects. The built-in objects come first."""
        return (*self.builtin, *self.installed)

    def get(self, name: str) -> T:
        """Return an object.

        Raises :class:`UsageError` if the name is unknown, or if the object of an installed package can't be
        imported.
        """
        if name not in self._objects:
            module, _, attribute = self.builtin.get(name, "").partition(":")
            if module:
                self._objects[name] = getattr(importlib.import_module(module), attribute)
            elif entry := self.installed.get(name):
                self._objects[name] = self.load(entry)
            else:
                raise self.unknown(name)
        return self._objects[name]

    def load(self, entry: EntryPoint) -> T:
        """Import the object of an installed package.

        Raises :class:`UsageError` if importing it fails, or if it is not an instance of ``kind``.
        """
        shown = f"the {self.noun} {entry.name!r} ({entry.value})"
        try:
            made = entry.load()
        except Exception as error:  # A user's package can raise any exception.
            raise UsageError(
                f"{shown} cannot be imported: {error}", remedy="reinstall the package that provides it"
            ) from error
        if not isinstance(made, self.kind):
            wanted = self.kind.__name__
            raise UsageError(
                f"{shown} is a {type(made).__name__}, not {'an' if wanted[0] in 'AEIOU' else 'a'} {wanted}",
                remedy=f"change the entry point to an instance of branchrank.plugins.{wanted}",
            )
        return cast("T", made)

    def unknown(self, name: str) -> UsageError:
        """Return the error for an unknown name."""
        correct = Remedy("correct {}", self.flag) if self.flag else f"correct the name of the {self.noun}"
        return UsageError(
            f"there is no {self.noun} {name!r}{or_else(name, self.names)}",
            remedy=(correct, f"install the package that provides this {self.noun}"),
        )
