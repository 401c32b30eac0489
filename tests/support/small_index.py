"""A small corpus with an index over it, for tests that need the real thing."""

from __future__ import annotations

from pathlib import Path

from support.worlds import write_pages

from branchrank.core.settings import Resolved
from branchrank.index.index_build import build_index
from branchrank.index.reader import Index
from branchrank.index.workspace_folder import WorkspaceFolder, configure

DOCUMENTS = {
    "cache.rst": """\
Cache
=====

A cache keeps a response so that it is served again.

Clearing the Cache
------------------

Run ``cache:clear`` to clear the pool. The option ``--no-warmup`` skips the warmup.

Pools
-----

Each pool has an adapter. The adapter ``ChainAdapter`` asks several pools in turn.
""",
    "http/client.rst": """\
HTTP Client
===========

The class ``HttpClient`` sends requests to other servers.

Retrying Requests
-----------------

A request that fails is sent again after a delay. Set ``max_retries`` to limit it.

Timeouts
--------

The option ``timeout`` is in seconds. A slow server is given up on.
""",
    "deploy.md": """\
# Deployment

How to bring an application to production.

## Runbook

Build the assets, warm the cache up, then switch the servers over.

## Rollback

Switch back to the release before. Nothing is deleted.
""",
}


def small_workspace(folder: Path, embedder: str = "fake:64") -> WorkspaceFolder:
    """A workspace in ``folder/data`` over the documents in ``folder/docs``."""
    write_pages(folder / "docs", DOCUMENTS)
    data = folder / "data"
    data.mkdir(exist_ok=True)
    settings = {"index.embedder": embedder, "index.vector_store": "exact", "index.chunk_tokens": 32}
    configure(data, corpus=folder / "docs", settings=settings)
    return WorkspaceFolder.open(data, environment={})


def small_index(folder: Path) -> tuple[Index, Path, Resolved]:
    """The index, the corpus's folder, and the settings."""
    workspace = small_workspace(folder)
    return build_index(workspace), workspace.corpus_root, workspace.settings
