"""The table of the long tests in the documentation is the one that the committed counts give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import draw, harness


def test_the_table_in_the_docs_matches_the_committed_counts() -> None:
    page = harness.PAGE.read_text(encoding="utf-8")
    assert harness.with_table(page, harness.read_collected()) == page


def test_files_of_one_part_are_summed(tmp_path: Path) -> None:
    for name, counts in (("a", {"trials": 3, "lost": 1}), ("b", {"trials": 4})):
        (tmp_path / f"{name}.json").write_text(json.dumps({"part": "crash loop", "seed": 42, **counts}))
    assert harness.collect(tmp_path) == [harness.Part(part="crash loop", trials=7, lost=1, seed=42)]


def test_a_seed_draws_a_share_of_the_trials_and_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "DRAWN_WITH", None)
    assert draw.some(range(81)) == list(range(81))
    monkeypatch.setattr(harness, "FOUND", tmp_path)
    harness.record("whole", harness.Part(part="fuzzing", trials=81))
    monkeypatch.setattr(draw, "DRAWN_WITH", 7)
    drawn = draw.some(range(81))
    assert (len(drawn), draw.number(81), draw.seed()) == (3, 3, 7)
    assert drawn == sorted(set(drawn)) == draw.some(range(81))
    harness.record("drawn", harness.Part(part="fuzzing", trials=11))
    assert [path.name for path in tmp_path.iterdir()] == ["whole.json"]
    monkeypatch.setattr(draw, "DRAWN_WITH", 8)
    assert draw.some(range(81)) != drawn
