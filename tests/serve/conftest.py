"""One small index and its service for every test of the servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from branchrank.systems.further_branches import further_branches
from support.small_index import small_workspace

from branchrank.index import Index, build_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.serve.service import Service, offer
from branchrank.systems.builtin import builtin_systems


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceFolder:
    """A workspace with an index, every LLM switched off; a secret and a link to it lie around it."""
    folder = tmp_path_factory.mktemp("serve")
    made = small_workspace(folder)
    config = made.data_dir / "branchrank.toml"
    config.write_text(
        config.read_text() + "\n[hybrid]\nno_llm = true\n[grep]\nvector_score_threshold = 4.0\n"
    )
    opened = WorkspaceFolder.open(made.data_dir, environment={})
    build_index(opened).close()
    return opened


@pytest.fixture(scope="session")
def index(workspace: WorkspaceFolder) -> Iterator[Index]:
    """The opened index."""
    with build_index(workspace) as opened:
        yield opened


@pytest.fixture(scope="session")
def service(workspace: WorkspaceFolder, index: Index) -> Iterator[Service]:
    """All built-in predictors but pageindex, which asks for an LLM that isn't named."""
    offered = offer(builtin_systems(("family",), workspace.settings))
    with ExitStack() as opened:
        further = further_branches(index, workspace.corpus_root, offered.ready, workspace.settings, opened)
        made = Service(index, offered, further=further)
        made.warm_up()
        yield made


@pytest.fixture(scope="session")
def data_dir(workspace: WorkspaceFolder) -> Path:
    """The workspace's folder."""
    return workspace.data_dir
