"""A small server with the parts of Qdrant's REST interface that BranchRank uses, by brute force.

Scores are computed from Qdrant's documentation (cosine; the sparse dot product with IDF ``ln(1 + (N - n +
0.5) / (n + 0.5))``), without Qdrant's code, so that the embedded engine can be checked against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.loopback import Reply, Request, answering


class FakeQdrant:
    """``collections`` maps a name to its layout and points; ``failing`` answers every request with it."""

    def __init__(self) -> None:
        self.url = ""
        self.collections: dict[str, dict[str, Any]] = {}
        self.failing: int | None = None
        self.answer: bytes | None = None
        self.encoding = ""
        self.drop_points = 0
        self.keys: list[str | None] = []
        #: Method and path of every request.
        self.requests: list[tuple[str, str]] = []
        #: The bodies of the requests that create a collection or add points, in order.
        self.bodies: list[tuple[str, Any]] = []
        #: Answer this many more requests that add points; None: all.
        self.upserts_left: int | None = None

    def reply(self, request: Request) -> Reply:
        self.keys.append(request.headers.get("api-key"))
        self.requests.append((request.method, request.path.partition("?")[0]))
        headers = {"Content-Encoding": self.encoding} if self.encoding else {}
        if self.failing:
            return Reply({"status": {"error": "down"}, "time": 0}, self.failing, headers)
        if self.answer is not None:
            return Reply(self.answer, 200, headers)
        result = self._result(request.method, request.path, request.json)
        return Reply({"result": result, "status": "ok", "time": 0.0}, 404 if result is None else 200, headers)

    def _result(self, method: str, path: str, body: Any) -> Any:
        _, _, name, *rest = f"{path.partition('?')[0]}/".split("/")
        rest = rest[:-1]
        verb = "/".join(rest)
        known = self.collections
        if not name:
            return {"collections": [{"name": each} for each in known]}
        if verb == "exists":
            return {"exists": name in known}
        if method == "PUT":
            self.bodies.append((f"{name}/{verb}".rstrip("/"), body))
        if not verb and method == "PUT":
            known[name] = {"layout": body, "points": {}}
            return True
        if name not in known:
            return None
        if not verb:
            return known.pop(name) and True if method == "DELETE" else _described(known[name])
        points = known[name]["points"]
        if verb == "points/scroll":
            return _scrolled(points, body)
        if verb == "points" and method == "POST":
            found = [points[key] for key in body["ids"] if key in points]
            vectors = bool(body.get("with_vector"))
            return [{"id": each["id"], **({"vector": each["vector"]} if vectors else {})} for each in found]
        if verb == "points":
            if self.upserts_left is not None:
                self.upserts_left -= 1
                if self.upserts_left < 0:
                    return None
            kept = body["points"][self.drop_points :]
            points.update({point["id"]: point for point in kept})
            return {"operation_id": 1, "status": "completed"}
        if verb == "points/delete":
            for key in body["points"]:
                points.pop(key, None)
            return {"operation_id": 2, "status": "completed"}
        if verb == "points/count":
            return {"count": len(points)}
        assert verb == "points/query", path
        return {"points": _query(points, body)}


@contextmanager
def fake_qdrant() -> Iterator[FakeQdrant]:
    """A running server on loopback."""
    server = FakeQdrant()
    with answering(server.reply) as server.url:
        yield server


def _described(collection: dict[str, Any]) -> dict[str, Any]:
    layout = collection["layout"]
    return {
        "status": "green",
        "optimizer_status": "ok",
        "segments_count": 1,
        "points_count": len(collection["points"]),
        "config": {
            "params": {"vectors": layout["vectors"], "sparse_vectors": layout.get("sparse_vectors")},
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
            "optimizer_config": {
                "deleted_threshold": 0.2,
                "vacuum_min_vector_number": 1000,
                "default_segment_number": 0,
                "flush_interval_sec": 5,
            },
        },
        "payload_schema": {},
    }


def _scrolled(points: dict[str, Any], body: Any) -> dict[str, Any]:
    """A page of points in the order of their ids, and where the next begins."""
    ordered = sorted(points.values(), key=lambda point: str(point["id"]))
    first = next((n for n, point in enumerate(ordered) if point["id"] == body.get("offset")), 0)
    page, rest = ordered[first : first + body["limit"]], ordered[first + body["limit"] :]
    shown = [{"id": point["id"], "payload": point["payload"]} for point in page]
    return {"points": shown, "next_page_offset": rest[0]["id"] if rest else None}


def _query(points: dict[str, Any], body: Any) -> list[dict[str, Any]]:
    using, query = body.get("using"), body["query"]
    query = query.get("nearest", query) if isinstance(query, dict) else query
    passing = [point for point in points.values() if _passes(point, body.get("filter"))]
    if isinstance(query, list) and query and isinstance(query[0], list):
        scored = [
            (_maxsim(query, point["vector"][using]), point) for point in passing if using in point["vector"]
        ]
    elif isinstance(query, list):
        scored = [
            (_cosine(query, point["vector"][using] if using else point["vector"]), point) for point in passing
        ]
    else:
        everything = [point["vector"][using] for point in points.values()]
        scored = [(_sparse(query, point["vector"][using], everything), point) for point in passing]
        scored = [entry for entry in scored if entry[0] > 0]
    scored.sort(key=lambda entry: -entry[0])
    wanted = body["with_payload"] or []
    return [
        {"id": p["id"], "version": 1, "score": s, "payload": {f: p["payload"][f] for f in wanted}}
        for s, p in scored[: body["limit"]]
    ]


def _passes(point: dict[str, Any], filter_: Any) -> bool:
    return all(
        point["id"] in term["has_id"]
        if "has_id" in term
        else point["payload"].get(term["key"]) in term["match"]["any"]
        for term in (filter_ or {}).get("must", [])
    )


def _cosine(left: list[float], right: list[float]) -> float:
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    return dot / math.sqrt(sum(a * a for a in left) * sum(b * b for b in right))


def _maxsim(query: list[list[float]], tokens: list[list[float]]) -> float:
    return sum(max(_cosine(mine, theirs) for theirs in tokens) for mine in query)


def _sparse(query: Any, vector: Any, everything: list[Any]) -> float:
    weights = dict(zip(vector["indices"], vector["values"], strict=True))
    score = 0.0
    for index, value in zip(query["indices"], query["values"], strict=True):
        holding = sum(index in other["indices"] for other in everything)
        idf = math.log(1 + (len(everything) - holding + 0.5) / (holding + 0.5))
        score += idf * value * weights.get(index, 0.0)
    return score
