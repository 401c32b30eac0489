"""A corpus of a few pages and a workspace over it, for tests of the index."""

from __future__ import annotations

from pathlib import Path

from support.worlds import write_pages

from branchrank.index.workspace_folder import WorkspaceFolder, configure

PAGES = {
    "index.md": "# Kettle\n\nThe kettle boils water.\n\n## Safety\n\nNever touch the hot plate.\n",
    "guide/descale.md": "# Descaling\n\nUse vinegar to remove limescale.\n\n## When\n\nEvery three months.\n",
    "guide/repair.rst": (
        "Repairs\n=======\n\nReplace the fuse first.\n\nThe lid\n-------\n\nA loose lid leaks steam.\n"
    ),
}


def small_workspace(folder: Path, **index: object) -> WorkspaceFolder:
    """A workspace ``folder/data`` over a corpus ``folder/docs``, with the fake embedder and exact search."""
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "docs"
    if not root.exists():
        write_pages(root, PAGES)
    settings = {"embedder": "fake:16", "vector_store": "exact", **index}
    configure(
        folder / "data", corpus=root, settings={f"index.{name}": value for name, value in settings.items()}
    )
    return reopened(folder)


def reopened(folder: Path, **flags: object) -> WorkspaceFolder:
    """The same workspace as a later command would see it, with flags such as ``index__embedder``."""
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return WorkspaceFolder.open(folder / "data", flags=named, environment={})
