"""A small documentation set whose index is quick to build, for tests of whole systems."""

from __future__ import annotations

import random
from pathlib import Path

from branchrank.core.settings import Resolved
from branchrank.index.index_build import build_index
from branchrank.index.reader import Index
from branchrank.index.workspace_folder import WorkspaceFolder, configure

PAGES = {
    "index.rst": (
        "Teapot\n======\n\nThe teapot daemon brews tea over HTTP.\n\n"
        ".. toctree::\n\n   install\n   guide/brewing\n   guide/cleaning\n"
    ),
    "install.rst": (
        "Installing\n==========\n\nDownload the package and run ``teapot setup``.\n\n"
        "Requirements\n------------\n\nYou need a kettle socket and 64 MB of memory.\n\n"
        "Upgrading\n---------\n\nStop the daemon, replace the package, start it again.\n"
        "The old configuration file is kept.\n"
    ),
    "guide/brewing.md": (
        "# Brewing\n\nEvery brew has a profile.\n\n"
        "## Choosing a temperature\n\nGreen tea wants 75 degrees, black tea wants 95.\n"
        "Set `brew.temperature` in the profile.\n\n"
        "## Steeping time\n\nThree minutes is the default. Use `brew.seconds` to change it.\n\n"
        "### Herbal tea\n\nHerbal tea steeps for ten minutes.\n\n"
        "## Errors\n\n`418 I'm a teapot` means that you asked for coffee.\n"
    ),
    "guide/cleaning.md": (
        "# Cleaning\n\nDescale the boiler with vinegar every month.\n\n"
        "## Removing stains\n\nBaking soda removes tannin stains.\n"
    ),
    "reference/api.md": (
        "# HTTP API\n\n## POST /brew\n\nStarts a brew and returns its id.\n\n"
        "## GET /brew/{id}\n\nReturns the temperature and the seconds left.\n"
    ),
}

QUERIES = (
    "which temperature for green tea",
    "brew.seconds",
    "418 error",
    "how do I upgrade the daemon",
    "remove stains",
    "zzz qqq",
    "tea",
)


def write_pages(root: Path, pages: dict[str, str] = PAGES) -> Path:
    """Write the pages below ``root``."""
    for source, text in pages.items():
        path = root / source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def numbered_pages() -> dict[str, str]:
    """180 pages of words of their own; a search has to leave most of them out."""
    letters = random.Random(7)
    pages = {}
    for number in range(180):
        words = ("".join(letters.choices("abcdefghijklmnoprstuvwxyz", k=6)) for _ in range(12))
        pages[f"p{number:03d}.md"] = f"# P{number}\n\ntea {' '.join(words)}\n"
    return pages


def make_workspace(folder: Path, pages: dict[str, str] = PAGES, **flags: object) -> WorkspaceFolder:
    """A workspace ``folder/data`` over ``folder/docs`` with the fake embedder; flags as ``local__rrf_k``."""
    root = write_pages(folder / "docs", pages)
    data_dir = folder / "data"
    configure(data_dir, corpus=root, settings={"index.embedder": "fake:64", "index.vector_store": "exact"})
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return WorkspaceFolder.open(data_dir, flags=named, environment={})


def make_index(folder: Path, pages: dict[str, str] = PAGES, **flags: object) -> tuple[Index, Resolved]:
    """The built index of such a workspace, and its settings."""
    workspace = make_workspace(folder, pages, **flags)
    return build_index(workspace), workspace.settings
