"""Each flag of ``hybrid`` moves its results, in the direction that the flag says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands import invoke, json_lines
from support.sample_index import CORPUS

Hits = list[dict[str, Any]]
K = 40
QUESTIONS = CORPUS.parent / "questions.jsonl"


def answers(data: Path, questions: list[str], *flags: object, verb: str = "hybrid") -> list[Hits]:
    words = (verb, "--data-dir", data, "--top-k", K, "--json", *(("--no-llm",) if verb == "hybrid" else ()))
    result = invoke(*words, *flags, typed="\n".join(questions) + "\n")
    assert result.exit_code == 0, result.output
    return [json.loads(line)["hits"] for line in result.stdout.splitlines()]


def sections(found: list[Hits]) -> int:
    return sum(len({hit["node_id"] for hit in hits}) for hits in found)


def reached(found: list[Hits]) -> int:
    """How many hits are of sections that the vectors reached only through the tree."""
    return sum("reached from" in str(hit["notes"]) for hits in found for hit in hits)


def beginnings(found: list[Hits]) -> int:
    """How many hits are at the beginning of a file."""
    return sum(" > " not in hit["breadcrumb"] for hits in found for hit in hits)


def found_by(found: list[Hits], branch: str) -> float:
    """The sum of the reciprocal ranks of the hits in a branch's list, divided by their places."""
    return sum(
        1 / hit["branches"][branch]["rank"] / place
        for hits in found
        for place, hit in enumerate(hits, start=1)
        if branch in hit["branches"]
    )


def by_words(found: list[Hits]) -> float:
    return found_by(found, "bm25(nodes)")


def by_vectors(found: list[Hits]) -> float:
    return found_by(found, "dense(chunks)")


def best_score(found: list[Hits]) -> float:
    return max(hit["score"] for hits in found for hit in hits)


#: A flag with a small and a large value, and a number of the answers that grows with the value.
MOVES: dict[str, tuple[float, float, Callable[[list[Hits]], float]]] = {
    "--hybrid-rrf-k": (1000, 1, best_score),
    "--hybrid-bm25-weight": (0.1, 10, by_words),
    "--hybrid-vector-weight": (0.1, 10, by_vectors),
    "--hybrid-neighbor-depth": (0, 1, reached),
    "--hybrid-siblings": (0, 10, reached),
    "--hybrid-candidate-cap": (2, 50, sections),
    "--hybrid-vector-top-n": (1, 40, by_vectors),
    "--hybrid-bm25-top-n": (1, 80, by_words),
}


@pytest.mark.parametrize(
    "flag",
    [pytest.param(flag, marks=pytest.mark.full if place % 3 else ()) for place, flag in enumerate(MOVES)],
)
def test_a_flag_moves_the_answers(pages: Path, quick: Path, flag: str) -> None:
    small, large, measured = MOVES[flag]
    asked = [line["question"] for line in json_lines(pages / "questions.jsonl")][::2]
    # So that the vectors do not reach every section by themselves.
    narrow = ("--hybrid-vector-top-n", 4) if measured is reached else ()
    fewer, more = (answers(quick, asked, *narrow, flag, value) for value in (small, large))
    ids = [[[hit["id"] for hit in hits] for hits in found] for found in (fewer, more)]
    assert ids[0] != ids[1]
    assert measured(fewer) < measured(more)


@pytest.mark.full
def test_file_roots_add_the_beginnings_of_files(tmp_path: Path) -> None:
    """The sections of the few pages are all directly below the beginnings of their files."""
    assert invoke("index", CORPUS, "--data-dir", tmp_path, "--embedder", "fake:64").exit_code == 0
    asked = [line["question"] for line in json_lines(QUESTIONS)][::8]
    flags = ("--hybrid-vector-top-n", 4, "--hybrid-file-roots")
    none, five = (answers(tmp_path, asked, *flags, number) for number in (0, 5))
    assert beginnings(none) < beginnings(five)


def test_fusion_sets_the_fusion_of_local_and_hybrid_alike(quick: Path, questions: list[str]) -> None:
    plain = answers(quick, questions)
    score = answers(quick, questions, "--fusion", "score")
    assert plain == answers(quick, questions, "--fusion", "rrf") != score
    assert score == answers(quick, questions, "--hybrid-fusion", "score", "--hybrid-passage-order", "scores")
    one_each = answers(quick, questions, "--fusion", "score", "--hybrid-passage-order", "sections")
    assert sections(one_each) == sum(map(len, one_each))
    local = answers(quick, questions, "--fusion", "score", verb="retrieve")
    assert local == answers(quick, questions, "--local-fusion", "score", verb="retrieve")
    assert local != answers(quick, questions, verb="retrieve")
