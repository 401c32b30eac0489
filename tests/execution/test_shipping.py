"""The archive of files that are shipped to the workers of a cluster."""

from __future__ import annotations

import os
from pathlib import Path

from branchrank.execution.workers import pack, unpack


def test_hard_links_to_the_same_file_are_all_shipped(tmp_path: Path) -> None:
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.mkdir()
    (sent / "a").write_text("text")
    os.link(sent / "a", sent / "b")
    (sent / "outside").symlink_to("/etc")
    unpack(pack([sent]), received)
    copy = received / str(sent).lstrip("/")
    assert sorted(path.name for path in copy.iterdir()) == ["a", "b"]
    assert (copy / "b").read_text() == "text"
