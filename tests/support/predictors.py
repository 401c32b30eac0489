"""Predictors of our own for the benchmark's tests, named as ``support.predictors:Class``."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from branchrank.core.records import Hit, Question, Retrieval


def passage(source: str, start: int, end: int, text: str = "text", score: float = 1.0) -> Hit:
    return Hit(id=f"{source}:{start}", source=source, line_start=start, line_end=end, text=text, score=score)


class WholePages:
    """Returns one whole page, always the same."""

    name = "whole-pages"

    def retrieve(self, query: str, k: int) -> list[Hit]:
        return [passage("guide/brewing.md", 1, 20, "=1+1")][:k]


class Failing:
    """Fails on some questions, and answers the others right at rank 1."""

    def retrieve(self, query: str, k: int) -> list[Hit]:
        if "tea" in query:
            raise RuntimeError("=cmd|'/c calc'!A1\nsecond line")
        return [passage("install.rst", 1, 15)]


class NoRetrieve:
    pass


class Broken:
    def __init__(self) -> None:
        raise OSError("no such model")


class Killed:
    """Ends its process by a signal at the query whose number ``KILLED_AT`` gives, counted in a file."""

    name = "killed"

    def retrieve(self, query: str, k: int) -> list[Hit]:
        counter = Path(os.environ["KILLED_COUNTER"])
        count = len(counter.read_text()) + 1 if counter.exists() else 1
        counter.write_text("x" * count)
        if count == int(os.environ["KILLED_AT"]):
            os.kill(os.getppid(), getattr(signal, os.environ["KILLED_BY"]))  # the command
            time.sleep(2)
        return [passage("install.rst", 1, 15)]


class Scripted:
    """A predictor for unit tests: question id -> hits, or the exception to raise. Keeps what it was asked."""

    def __init__(self, name: str, answers: dict[str, object], llm: str = "none") -> None:
        self.name = name
        self.llm = llm
        self.answers = answers
        self.asked: list[tuple[str, int]] = []

    def predict(self, question: Question, k: int, repeat: int = 0) -> Retrieval:
        self.asked.append((question.id, repeat))
        answer = self.answers.get(question.id, ())
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Retrieval):
            return answer
        return Retrieval(hits=tuple(answer)[:k])  # type: ignore[arg-type]

    def gold_keys(self, question: Question) -> frozenset[str]:
        return frozenset()


class AlwaysFailing:
    """Fails on every question."""

    name = "always-failing"

    def retrieve(self, query: str, k: int) -> list[Hit]:
        raise RuntimeError("the service is closed")


class FirstPages:
    """A class of one's own: always the first lines of the first page."""

    name = "mine"
    llm = "rented"
    page = "page-0.md"

    def retrieve(self, query: str, k: int) -> list[Hit]:
        found = Hit(id="x", source=self.page, line_start=1, line_end=3, text="", score=0.5)
        return [found] * min(k, 2)


class OtherPages(FirstPages):
    """The same for the pages of ``support.worlds``."""

    page = "index.rst"
