"""``--qdrant-collection``: a collection of somebody else's, on a server or in a folder, is only read."""

from __future__ import annotations

import contextlib
import json
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import qdrant_edge
from click.testing import Result
from qdrant_client import QdrantClient, models
from support.artifacts import MODEL, paragraphs, state
from support.commands import invoke, json_lines, make_project
from support.fake_qdrant import FakeQdrant, fake_qdrant
from support.worlds import PAGES

from branchrank.core.errors import ArtifactError, UsageError
from branchrank.core.spec import Branch, Fuse, Rescore, System
from branchrank.index.manifest import COSINE_SCALE, MAXSIM_SCALE
from branchrank.index.stores.qdrant_existing import read_pickled
from branchrank.index.stores.qdrant_store import Bm25Encoder
from branchrank.search.systems.branches import qdrant_branches as qdrant
from branchrank.workspace import Workspace

QUERY = "descale the boiler with vinegar"
POINTS = paragraphs(PAGES)
TEXTS = [each["text"] for each in POINTS]
ROWS = MODEL.embed_documents(TEXTS)


def payload(number: int) -> dict[str, Any]:
    """Lines, a text alone in its document, or metadata as frameworks write it, in turn."""
    point = POINTS[number]
    if number % 3 == 0:
        first, last = point["lines"]
        return {"file_path": point["file_path"], "line_start": first, "line_end": last, "text": point["text"]}
    if number % 3 == 1:
        return {"path": f"docs/{point['file_path']}", "text": point["text"]}
    return {"page_content": point["text"], "metadata": {"source": point["file_path"]}}


def sparse_of(text: str) -> tuple[list[int], list[float]]:
    weights = Bm25Encoder().document(text)
    return weights.indices, weights.values


def local_mode(folder: Path, kind: str, tokens: list[Any] | None = None) -> list[str]:
    """A collection of qdrant-client's local mode; the flags that name it."""
    # Without this option qdrant-client opens a database that it never closes; Python 3.13 warns of it.
    client = QdrantClient(path=str(folder), force_disable_check_same_thread=True)
    size = models.VectorParams(size=64, distance=models.Distance.COSINE)
    named = kind == "hybrid"
    layout = {"text-dense": size} if named or tokens else size
    if tokens:
        most = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        layout["text-tokens"] = size.model_copy(update={"multivector_config": most})
    client.create_collection(
        "theirs",
        vectors_config=layout,
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        if named
        else None,
    )
    points = []
    for number, row in enumerate(ROWS):
        vector: Any = (2 * row).tolist()
        if named:
            indices, values = sparse_of(TEXTS[number])
            vector = {"text-dense": vector, "bm25": models.SparseVector(indices=indices, values=values)}
        if tokens:
            vector = {"text-dense": vector, "text-tokens": tokens[number].tolist()}
        points.append(models.PointStruct(id=number, vector=vector, payload=payload(number)))
    client.upsert("theirs", points)
    client.close()
    return ["--qdrant-path", str(folder)]


def shard(folder: Path, kind: str) -> list[str]:
    """A shard of the embedded engine in ``folder/theirs``; the flags that name it."""
    (folder / "theirs").mkdir(parents=True)
    named = kind == "hybrid"
    name = "text-dense" if named else ""
    made = qdrant_edge.EdgeShard.create(
        str(folder / "theirs"),
        qdrant_edge.EdgeConfig(
            vectors={name: qdrant_edge.EdgeVectorParams(size=64, distance=qdrant_edge.Distance.Cosine)},
            sparse_vectors={"bm25": qdrant_edge.EdgeSparseVectorParams(modifier=qdrant_edge.Modifier.Idf)}
            if named
            else {},
        ),
    )
    points = []
    for number, row in enumerate(ROWS):
        vector: dict[str, Any] = {name: row.tolist()}
        if named:
            indices, values = sparse_of(TEXTS[number])
            vector["bm25"] = qdrant_edge.SparseVector(indices=indices, values=values)
        points.append(qdrant_edge.Point(id=number, vector=vector, payload=payload(number)))
    made.update(qdrant_edge.UpdateOperation.upsert_points(points))
    made.flush()
    made.close()
    return ["--qdrant-path", str(folder)]


def served(server: FakeQdrant, kind: str, tokens: list[Any] | None = None) -> list[str]:
    """A collection of a server; the flags that name it."""
    named = kind == "hybrid"
    size = {"size": 64, "distance": "Cosine"}
    points = {}
    for number, row in enumerate(ROWS):
        vector: Any = row.tolist()
        if named:
            indices, values = sparse_of(TEXTS[number])
            vector = {"text-dense": vector, "bm25": {"indices": indices, "values": values}}
        if tokens:
            vector = {"text-dense": vector, "text-tokens": tokens[number].tolist()}
        points[number] = {"id": number, "vector": vector, "payload": payload(number)}
    layout: dict[str, Any] = {"vectors": {"text-dense": size} if named or tokens else size}
    if tokens:
        layout["vectors"]["text-tokens"] = {**size, "multivector_config": {"comparator": "max_sim"}}
    if named:
        layout["sparse_vectors"] = {"bm25": {"modifier": "idf"}}
    server.collections = {"theirs": {"layout": layout, "points": points}}
    return ["--qdrant-url", server.url]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("existing"))


@pytest.fixture
def server() -> Iterator[FakeQdrant]:
    with fake_qdrant() as running:
        yield running


Make = Callable[[str], list[str]]


@pytest.fixture(params=["local mode", "shard", "server"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "server":
        running = request.getfixturevalue("server")
        return lambda kind: served(running, kind)
    maker = local_mode if request.param == "local mode" else shard
    return lambda kind: maker(tmp_path / "qdrant", kind)


def retrieve(project: Path, *words: object, name: str = "theirs", query: str = QUERY) -> Result:
    flags = ("--predictor", "qdrant", "--json", "--quiet", "--qdrant-collection", name)
    return invoke("retrieve", query, "--data-dir", project / "data", *flags, *words)


def hits(result: Result) -> list[tuple[str, int, int]]:
    assert result.exit_code == 0, result.output
    return [
        (each["source"], each["line_start"], each["line_end"]) for each in json.loads(result.stdout)["hits"]
    ]


@pytest.mark.parametrize("kind", ["hybrid", "dense"])
def test_the_points_are_hits_with_their_lines_and_the_collection_stays(
    project: Path, make: Make, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    flags = make(kind)
    folder = tmp_path / "qdrant"
    before = state(folder) if folder.exists() else {}
    result = retrieve(project, *flags, "--top-k", 40)
    found = hits(result)
    assert found[0] == ("guide/cleaning.md", 3, 3)
    assert set(found) <= {(each["file_path"], *each["lines"]) for each in POINTS}
    query = MODEL.embed_query(QUERY)
    order = np.argsort(-(ROWS @ query), kind="stable")
    if kind == "dense":
        nearest = [(POINTS[n]["file_path"], *POINTS[n]["lines"]) for n in order]
        assert found[:3] == nearest[:3]
    notices = json.loads(result.stdout).get("notices", []) + result.stderr.splitlines()
    assert any(qdrant.DENSE_ONLY in each for each in notices) == (kind == "dense")
    only_sparse = retrieve(project, *flags, "--qdrant-fusion-weight", "0")
    assert (hits(only_sparse)[:3] == found[:3]) == (kind == "dense")
    assert (state(folder) if folder.exists() else {}) == before
    if not folder.exists():
        running: FakeQdrant = request.getfixturevalue("server")
        reading = {("POST", f"/collections/theirs/points{verb}") for verb in ("", "/scroll", "/query")}
        reading |= {("GET", "/collections"), ("GET", "/collections/theirs")}
        assert set(running.requests) == reading


def test_all_locations_give_the_same_results(project: Path, tmp_path: Path, server: FakeQdrant) -> None:
    places = [local_mode(tmp_path / "a", "hybrid"), shard(tmp_path / "b", "hybrid"), served(server, "hybrid")]
    for query in (QUERY, "which temperature for green tea"):
        answers = [hits(retrieve(project, *flags, query=query)) for flags in places]
        assert answers[0] == answers[1] == answers[2]


def test_a_filter_applies_before_the_ranking(project: Path, make: Make) -> None:
    flags = make("hybrid")
    found = hits(retrieve(project, *flags, "--filter", "file_path=install.rst", "--top-k", 3))
    assert len(found) == 3
    assert {source for source, _, _ in found} == {"install.rst"}


def test_a_filter_applies_before_the_sparse_ranking(project: Path, make: Make) -> None:
    """More passages than the branch asks for fit the query better, in other documents."""
    words = "brew profile temperature seconds minutes tea degrees stains vinegar coffee id kettle"
    flags = (*make("hybrid"), "--filter", "file_path=install.rst", "--top-k", 1)
    result = retrieve(project, *flags, "--qdrant-fusion-weight", 0, query=words)
    assert [source for source, _, _ in hits(result)] == ["install.rst"]
    [hit] = json.loads(result.stdout)["hits"]
    assert hit["branches"]["qdrant-sparse"]["rank"] == 1


@pytest.mark.parametrize(
    "make",
    ["server", *(pytest.param(place, marks=pytest.mark.full) for place in ("local mode", "shard"))],
    indirect=True,
)
def test_the_benchmark_searches_it(project: Path, make: Make, tmp_path: Path) -> None:
    flags = make("hybrid")
    words = (
        "--data-dir",
        project / "data",
        "--reports",
        tmp_path / "reports",
        "--quiet",
        "--latency-sample",
        0,
    )
    result = invoke("benchmark", "--predictor", "qdrant", "--qdrant-collection", "theirs", *words, *flags)
    assert result.exit_code == 0, result.output
    (rows,) = (tmp_path / "reports").glob("*/rows.jsonl")
    spans = {(each["file_path"], *each["lines"]) for each in POINTS}
    found = [hit for row in json_lines(rows) for hit in row["hits"]]
    assert found
    assert {(hit["source"], hit["line_start"], hit["line_end"]) for hit in found} <= spans
    (run,) = (tmp_path / "reports").glob("*/run.json")
    assert '"collection": "theirs"' in run.read_text() or '"theirs"' in run.read_text()


def test_points_without_a_place_are_left_out_and_counted(project: Path, server: FakeQdrant) -> None:
    flags = served(server, "hybrid")
    points = server.collections["theirs"]["points"]
    for number in (0, 1):
        points[number]["payload"] = {"path": "gone.md", "text": f"text {number} that no page has"}
    points[1000] = {**points[2], "id": 1000}  # the same passage twice
    result = retrieve(project, *flags, "--top-k", 100)
    found = hits(result)
    assert len(found) == len(set(found)) == len(POINTS) - 2
    assert f"2 of {len(POINTS) + 1} points" in result.output
    for point in points.values():
        point["payload"] = {"path": "gone.md", "text": "gone"}
    result = retrieve(project, *flags)
    assert result.exit_code == 4
    assert "Qdrant collection 'theirs'" in result.stderr


def test_vectors_of_another_model_are_refused(project: Path, server: FakeQdrant) -> None:
    flags = served(server, "dense")
    points = server.collections["theirs"]["points"]
    rows = [point["vector"] for point in points.values()][::-1]
    for point, row in zip(points.values(), rows, strict=True):
        point["vector"] = row
    result = retrieve(project, *flags)
    assert result.exit_code == 4
    assert "sampled texts" in result.stderr
    server.collections["theirs"]["layout"]["vectors"]["size"] = 8
    result = retrieve(project, *flags)
    assert result.exit_code == 4
    assert "8" in result.stderr
    assert "64" in result.stderr


def test_sparse_vectors_of_another_kind_are_not_searched(project: Path, server: FakeQdrant) -> None:
    flags = served(server, "hybrid")
    for point in server.collections["theirs"]["points"].values():
        point["vector"]["bm25"] = {"indices": [1, 2], "values": [1.0, 1.0]}
    result = retrieve(project, *flags)
    assert hits(result)[0] == ("guide/cleaning.md", 3, 3)
    assert qdrant.FOREIGN_SPARSE in result.output


def test_a_collection_without_texts_is_searched_by_its_lines(project: Path, server: FakeQdrant) -> None:
    flags = served(server, "hybrid")
    for number, point in server.collections["theirs"]["points"].items():
        first, last = POINTS[number]["lines"]
        source = POINTS[number]["file_path"]
        point["payload"] = {"source": source, "line_start": first, "line_end": last}
    result = retrieve(project, *flags)
    assert hits(result)[0] == ("guide/cleaning.md", 3, 3)
    assert qdrant.UNCHECKED in result.output


def test_missing_collections_and_vectors_are_reported(
    project: Path, make: Make, tmp_path: Path, server: FakeQdrant
) -> None:
    flags = make("dense")
    result = retrieve(project, *flags, name="their")
    assert result.exit_code == 4
    assert "did you mean `theirs`" in result.stderr
    assert retrieve(project).exit_code == 2
    both = ("--qdrant-url", server.url, "--qdrant-path", tmp_path)
    assert retrieve(project, *both).exit_code == 2
    assert retrieve(project, "--qdrant-path", tmp_path / "nowhere").exit_code == 4


def test_links_in_a_folder_are_refused(project: Path, tmp_path: Path) -> None:
    flags = local_mode(tmp_path / "qdrant", "dense")
    (tmp_path / "qdrant" / "more").symlink_to(tmp_path)
    result = retrieve(project, *flags)
    assert result.exit_code == 4
    assert "symbolic links" in result.stderr


@pytest.mark.parametrize("values", ["i, zeroblob(100000) FROM n", "i, x'' FROM n", "i, 1 FROM n"])
def test_an_endless_view_in_place_of_the_points_is_refused(
    project: Path, tmp_path: Path, values: str
) -> None:
    flags = local_mode(tmp_path / "qdrant", "dense")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    storage = tmp_path / "qdrant" / "collection" / "theirs" / "storage.sqlite"
    with contextlib.closing(sqlite3.connect(storage)) as database:
        view = f"CREATE VIEW points(id, point) AS {endless} SELECT {values}"
        database.executescript(f"DROP TABLE points; {view}")
    result = retrieve(project, *flags)
    assert result.exit_code == 4
    assert "computes values" in result.stderr


class Evil:
    ran: list[str] = []  # noqa: RUF012

    def __reduce__(self) -> Any:
        return Evil.ran.append, ("ran",)


def test_a_pickle_with_code_is_refused_and_not_executed(project: Path, tmp_path: Path) -> None:
    flags = local_mode(tmp_path / "qdrant", "dense")
    database = sqlite3.connect(tmp_path / "qdrant" / "collection" / "theirs" / "storage.sqlite")
    with database:
        database.execute("INSERT INTO points VALUES ('evil', ?)", (pickle.dumps(Evil()),))
    database.close()
    result = retrieve(project, *flags)
    assert result.exit_code == 4
    assert "not plain data" in result.stderr or "does not need" in result.stderr
    assert Evil.ran == []


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_read_from_a_pickle(protocol: int) -> None:
    data = {
        "numbers": [0, 255, 256, 65536, -1, 2**40, -(2**70), 1.5, float("inf")],
        "row": np.arange(5000, dtype=float).tolist(),
        "text": ["", "é\u2028", "x" * 70_000],
        "more": [True, False, None, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "set": {1, 2} if protocol >= 4 else 0,
    }
    data["again"] = data["text"]
    assert read_pickled(pickle.dumps(data, protocol=protocol), frozenset()) == data
    whole = pickle.dumps(data, protocol=protocol)
    for cut in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ValueError):  # noqa: PT011
            read_pickled(whole[:cut], frozenset())


def test_a_class_that_is_not_a_record_is_refused() -> None:
    content = pickle.dumps(models.SparseVector(indices=[1], values=[2.0]))
    record = "qdrant_client.http.models.models.SparseVector"
    assert read_pickled(content, frozenset({record})) == {"indices": [1], "values": [2.0]}
    with pytest.raises(ValueError, match="SparseVector"):
        read_pickled(content, frozenset())


@pytest.mark.parametrize("fuse", ["rrf", "score"])
def test_an_experiment_searches_it_with_branches_of_spans(project: Path, tmp_path: Path, fuse: str) -> None:
    folder = tmp_path / "qdrant"
    shard(folder, "hybrid")
    branches = tuple(Branch(kind=kind, unit="span") for kind in ("qdrant-dense", "qdrant-sparse"))
    system = System(name="theirs", branches=branches, fuse=Fuse(method=fuse))
    settings = {"qdrant.collection": "theirs", "qdrant.path": str(folder)}
    with Workspace.open(project / "data", settings=settings) as workspace:
        (first, *_) = workspace.search(QUERY, system=system, k=3)
        assert (first.source, first.line_start) == ("guide/cleaning.md", 3)
        chunks = msgspec.structs.replace(system, branches=tuple(Branch(kind=b.kind) for b in branches))
        with pytest.raises(UsageError, match="unit"):
            workspace.search(QUERY, system=chunks, k=3)
    with Workspace.open(project / "data") as workspace, pytest.raises(UsageError, match="unit"):
        workspace.search(QUERY, system=system, k=3)


def late_hits(project: Path, flags: list[str]) -> list[tuple[str, float]]:
    """The spans of an existing collection, by MaxSim alone."""
    key = "qdrant.url" if flags[0] == "--qdrant-url" else "qdrant.path"
    settings = {"qdrant.collection": "theirs", key: flags[1]}
    branch = Branch(kind="qdrant-dense", unit="span")
    system = System(
        name="late",
        branches=(branch,),
        fuse=Fuse(method="score"),
        rescore=Rescore(method="maxsim", candidates=50, weight=1000.0),
    )
    with Workspace.open(project / "data", settings=settings) as workspace:
        found = workspace.search(QUERY, system=system, k=5)
        return [(f"{hit.source}:{hit.line_start}-{hit.line_end}", hit.score) for hit in found]


def scaled(project: Path, maxsim: float, cosine: float) -> float:
    """The score of a span from its similarities, which are converted to the scale of all models."""
    with Workspace.open(project / "data") as workspace:
        manifest = workspace.index.manifest
    late = manifest.maxsims.convert(maxsim, MAXSIM_SCALE)
    return 1000 * late + manifest.cosines.convert(cosine, COSINE_SCALE)


@pytest.mark.parametrize("place", ["local mode", "server"])
def test_the_multivectors_of_an_existing_collection_are_compared_there(
    project: Path, server: FakeQdrant, tmp_path: Path, place: str
) -> None:
    made = MODEL.embed_documents_and_tokens(TEXTS).tokens
    flags = (
        served(server, "dense", list(made))
        if place == "server"
        else local_mode(tmp_path / "qdrant", "dense", list(made))
    )
    found = late_hits(project, flags)
    query = MODEL.embed_query_and_tokens(QUERY).tokens
    best: dict[str, float] = {}
    for point, rows, dense in zip(POINTS, made, ROWS @ MODEL.embed_query(QUERY), strict=True):
        key = f"{point['file_path']}:{point['lines'][0]}-{point['lines'][1]}"
        score = scaled(project, float((query @ rows.T).max(axis=1).mean()), float(dense))
        best[key] = max(score, best.get(key, -1.0))
    expected = sorted(best.items(), key=lambda entry: (-entry[1], entry[0]))[:5]
    assert [key for key, _ in found] == [key for key, _ in expected]
    assert [score for _, score in found] == pytest.approx(
        [score for _, score in expected], abs=1e-2
    )  # 1,000 times a score


def test_multivectors_of_another_model_are_refused(project: Path, server: FakeQdrant) -> None:
    made = MODEL.embed_documents_and_tokens(TEXTS).tokens
    flags = served(server, "dense", [each[:, ::-1] for each in made])
    with pytest.raises(ArtifactError, match="token vectors") as caught:
        late_hits(project, flags)
    assert "--embedder" in caught.value.remedy


def test_a_collection_without_multivectors_cannot_be_rescored(project: Path, server: FakeQdrant) -> None:
    with pytest.raises(UsageError, match="no token vectors"):
        late_hits(project, served(server, "hybrid"))
