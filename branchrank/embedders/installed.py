"""Embedders provided by installed packages.

A package registers its embedder in the entry-point group ``branchrank.embedders``. The entry's name is the
route in ``--embedder NAME`` or ``--embedder NAME:MODEL``; its value is a callable
``(model, notify) -> Embedder``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Protocol

from branchrank.embedders.protocol import Embedder, EmbedderIdentity
from branchrank.errors import UsageError
from branchrank.progress import Notify

ENTRY_POINTS = "branchrank.embedders"


class OpensEmbedder(Protocol):
    """The callable of an entry point. ``model`` is the part after the colon, or empty."""

    def __call__(self, model: str, notify: Notify | None) -> Embedder:
        """Open the embedder; call ``notify`` with one line before a download."""
        ...


def installed_routes() -> tuple[str, ...]:
    """The routes that installed packages provide."""
    return tuple(dict.fromkeys(entry.name for entry in entry_points(group=ENTRY_POINTS)))


def open_installed(route: str, model: str, notify: Notify | None) -> Embedder | None:
    """Open the embedder of an installed package; return ``None`` if no package provides the route.

    Raises :class:`UsageError` if it cannot be imported or is not an embedder.
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
