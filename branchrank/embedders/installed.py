"""Embedders that installed packages add.

A package names its embedder in the entry-point group ``branchrank.embedders``: the entry's name is the route
of ``--embedder NAME`` or ``--embedder NAME:MODEL``, its value a callable ``(model, notify) -> Embedder``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Protocol

from branchrank.embedders.protocol import Embedder, EmbedderIdentity
from branchrank.errors import UsageError
from branchrank.progress import Notify

ENTRY_POINTS = "branchrank.embedders"


class OpensEmbedder(Protocol):
    """What an entry point names. ``model`` is the part after the colon, empty without one."""

    def __call__(self, model: str, notify: Notify | None) -> Embedder:
        """Open the embedder; ``notify`` gets one line about a download."""
        ...


def installed_routes() -> tuple[str, ...]:
    """The routes that installed packages add."""
    return tuple(dict.fromkeys(entry.name for entry in entry_points(group=ENTRY_POINTS)))


def open_installed(route: str, model: str, notify: Notify | None) -> Embedder | None:
    """The embedder of an installed package, ``None`` when no package adds the route.

    Raises :class:`UsageError` when it cannot be imported or is not an embedder.
    """
    for entry in entry_points(group=ENTRY_POINTS, name=route):
        try:
            opens: OpensEmbedder = entry.load()
        except Exception as error:
            raise UsageError(
                f"the embedder {route!r} ({entry.value}) cannot be imported: {error}",
                remedy="reinstall the package that provides it",
            ) from error
        made = opens(model, notify)
        if not isinstance(getattr(made, "identity", None), EmbedderIdentity):
            raise UsageError(
                f"the embedder {route!r} ({entry.value}) returned {made!r}, which has no identity",
                remedy="give it the attribute identity, a branchrank.embedders.EmbedderIdentity",
            )
        return made
    return None
