"""Embedders provided by installed packages.

A package registers its embedder as an entry point in the group ``branchrank.embedders``. ``--embedder NAME``
or ``--embedder NAME:MODEL`` selects the embedder whose entry point is called ``NAME``. The entry point must
refer to a callable that takes the arguments ``model`` and ``notify`` and returns an :class:`Embedder`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Protocol

from branchrank.embedders.protocol import Embedder, EmbedderIdentity
from branchrank.errors import UsageError
from branchrank.io.progress import Notify

ENTRY_POINTS = "branchrank.embedders"


class OpensEmbedder(Protocol):
    """The callable that an entry point in the group ``branchrank.embedders`` refers to.

    ``model`` is the text after the colon in ``--embedder``, or an empty string if there is no colon.
    """

    def __call__(self, model: str, notify: Notify | None) -> Embedder:
        """Open the embedder. Before a download, call ``notify`` with one line of text."""
        ...


def installed_routes() -> tuple[str, ...]:
    """Return the names of the embedders that installed packages provide."""
    return tuple(dict.fromkeys(entry.name for entry in entry_points(group=ENTRY_POINTS)))


def open_installed(route: str, model: str, notify: Notify | None) -> Embedder | None:
    """Open the embedder ``route`` from an installed package, or return ``None`` if no package provides it.

    Raises :class:`UsageError` if the embedder can't be imported or has no valid ``identity`` attribute.
    """
    for entry in entry_points(group=ENTRY_POINTS, name=route):
        try:
            opens: OpensEmbedder = entry.load()
        except Exception as error:
            raise UsageError(
                f"the embedder {route!r} ({entry.value}) cannot be imported: {error}",
                remedy="reinstall the package that provides this embedder",
            ) from error
        made = opens(model, notify)
        if not isinstance(getattr(made, "identity", None), EmbedderIdentity):
            raise UsageError(
                f"the embedder {route!r} ({entry.value}) returned {made!r}, which has no valid `identity`",
                remedy="add the attribute `identity`, a branchrank.embedders.EmbedderIdentity, to its class",
            )
        return made
    return None
