"""One small index and its service for every test of the servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_index import small_workspace

from branchrank.frontends.serve.service import Service
from branchrank.index.index_build import build_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.workspace import Workspace


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceFolder:
    """A workspace with an index. Nothing answers at the endpoint of its pageindex, which cannot run."""
    folder = tmp_path_factory.mktemp("serve")
    made = small_workspace(folder)
    config = made.data_dir / "branchrank.toml"
    config.write_text(
        config.read_text()
        + "\n[grep]\nvector_score_threshold = 4.0\n"
        + '\n[pageindex]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    opened = WorkspaceFolder.open(made.data_dir, environment={})
    build_index(opened).close()
    return opened


@pytest.fixture(scope="session")
def service(workspace: WorkspaceFolder) -> Iterator[Service]:
    """All built-in predictors but pageindex; all are warm."""
    with Workspace(workspace) as opened:
        made = Service(opened, ("family",))
        made.warm_up()
        yield made


@pytest.fixture(scope="session")
def data_dir(workspace: WorkspaceFolder) -> Path:
    """The workspace's folder."""
    return workspace.data_dir
