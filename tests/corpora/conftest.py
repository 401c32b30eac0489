"""Symfony's documentation, embedded once by a real model: that takes minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchrank import Workspace

SYMFONY = Path(__file__).parents[2].parent / "shared" / "corpora" / "symfony-docs"


@pytest.fixture(scope="session")
def symfony(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose ``data`` is the workspace."""
    if not SYMFONY.is_dir():
        pytest.skip(f"{SYMFONY} is not here")
    folder = tmp_path_factory.mktemp("symfony")
    Workspace.build(SYMFONY, folder / "data", embedder="all-MiniLM-L6-v2").close()
    return folder
