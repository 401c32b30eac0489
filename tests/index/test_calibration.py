"""The distance threshold that an index measures for its model."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.worlds import PAGES, make_workspace

from branchrank.core.records import Node
from branchrank.index.embedding import calibrate, probe_queries
from branchrank.index.index_build import build_index
from branchrank.index.manifest import DistanceCalibration

DISTANCES = st.lists(st.floats(0.0, 4.0), min_size=1, max_size=40)


@given(DISTANCES)
def test_the_default_is_kept_unless_it_empties_the_branch_for_1_of_20_probes(
    distances: list[float],
) -> None:
    measured = calibrate(distances)
    losing = sum(distance >= 0.5 for distance in distances)
    assert (len(measured.best), measured.losing) == (len(distances), losing)
    found = DistanceCalibration(probes=len(distances), losing=losing, threshold=max(0.5, measured.suggested))
    if 20 * losing <= len(distances) and found.threshold == 0.5:
        assert found.words == ""
    else:
        assert found.threshold == measured.suggested
        assert f"{losing} of {len(distances)} probe queries" in found.words


@given(DISTANCES)
def test_the_suggested_threshold_keeps_95_of_100_nearest_chunks_and_is_no_larger(
    distances: list[float],
) -> None:
    suggested = calibrate(distances).suggested
    kept = sum(distance < suggested for distance in distances)
    assert kept >= 0.95 * len(distances) or suggested == 4.0
    fewer = sum(distance < suggested - 0.011 for distance in distances)
    assert fewer < 0.95 * len(distances)


def asked(titles: list[str]) -> list[Node]:
    return [page(number, title) for number, title in enumerate(titles)]


def page(number: int, title: str) -> Node:
    return Node(
        id=f"{number}.md", parent_id="", depth=1, kind="file", title=title, source=f"{number}.md",
        line_start=1, line_end=1, own_line_end=1,
    )  # fmt: skip


def test_probes_are_distinct_titles_drawn_by_a_seed() -> None:
    titles = [f"Title {n // 2}" for n in range(600)]
    probes = probe_queries(asked(titles))
    assert len(probes) == len(set(probes)) == 100
    assert probes == probe_queries(asked(list(reversed(titles))))
    assert set(probes) <= set(titles)
    assert sorted(probe_queries(asked(["", "B"]))) == ["0.md", "B"]


def test_the_manifest_is_the_same_from_build_to_build(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        with build_index(make_workspace(tmp_path / name)) as index:
            found.append(index.manifest.distance)
    assert found[0] == found[1]
    assert 2 * found[0].losing > found[0].probes
    assert found[0].threshold > 0.5
    assert len(PAGES) < found[0].probes
