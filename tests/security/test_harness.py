"""The table of the long tests in the documentation is the one that the committed counts give."""

from __future__ import annotations

import json
from pathlib import Path

from support import harness


def test_the_table_in_the_docs_matches_the_committed_counts() -> None:
    page = harness.PAGE.read_text(encoding="utf-8")
    assert harness.with_table(page, harness.read_collected()) == page


def test_files_of_one_part_are_summed(tmp_path: Path) -> None:
    for name, counts in (("a", {"trials": 3, "lost": 1}), ("b", {"trials": 4})):
        (tmp_path / f"{name}.json").write_text(json.dumps({"part": "crash loop", "seed": 42, **counts}))
    assert harness.collect(tmp_path) == [harness.Part(part="crash loop", trials=7, lost=1, seed=42)]
