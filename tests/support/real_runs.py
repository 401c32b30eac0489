"""A small benchmark of real systems over real documents: traces, an LLM and its cassette, a class, times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import scripted_llm
from support.scripted_llm import ScriptedLLM
from support.worlds import make_index

from branchrank import Workspace
from branchrank.core.io.files import write_jsonl
from branchrank.questions.question_files import EXAMPLE
from branchrank.run import Run

PARTS = ("kettle", "spout", "handle", "filter", "lid")
PAGES = 3
MODEL = "scripted"
CLASS = "support.predictors:FirstPages"


def pages() -> dict[str, str]:
    """Pages of one section for each part, each naming a value of its own."""
    made = {}
    for page in range(PAGES):
        sections = [
            f"## The {part} of model {page}\n\nClean the {part} every {10 + page} days.\n"
            f"Its number is {part}-{page}{place}.\n"
            for place, part in enumerate(PARTS)
        ]
        made[f"page-{page}.md"] = f"# Model {page}\n\nA teapot called {page}.\n\n" + "\n".join(sections)
    return made


def questions() -> list[dict[str, Any]]:
    """A question about every section's number, with its lines and a quote, and two that nothing answers."""
    made: list[dict[str, Any]] = []
    for source, text in pages().items():
        lines = text.split("\n")
        for place, part in enumerate(PARTS):
            number = f"{part}-{source[5]}{place}"
            line = next(at for at, each in enumerate(lines, start=1) if number in each)
            asked = number if place % 2 else f"number of the {part} of model {source[5]}"
            made.append(
                {
                    "id": f"q-{part}-{source[5]}",
                    "question": asked,
                    "source_file": source,
                    "answer_line_start": line,
                    "answer_line_end": line,
                    "answer_quote": f"Its number is {number}",
                }
            )
    made += [{"id": f"u-{n}", "question": f"espresso {n}", "answerable": False} for n in range(2)]
    made[-1][EXAMPLE] = "so that the run has a warning"
    return made


@contextmanager
def real_run(folder: Path, **options: Any) -> Iterator[Run]:
    """The finished run ``folder/reports/...`` of the workspace ``folder/data`` over ``folder/docs``.

    Its LLM calls are in the cassette ``folder/calls.sqlite``; the LLM server is gone.
    """
    index, _ = make_index(folder, pages())
    index.close()
    write_jsonl(folder / "questions.jsonl", questions())
    with ScriptedLLM(scripted_llm.first_shown, models=(MODEL,)) as server:
        settings = {
            "hybrid.base_url": server.base_url,
            "hybrid.model": MODEL,
            "pageindex.no_llm": True,
            "llm.record": str(folder / "calls.sqlite"),
            **options.pop("settings", {}),
        }
        with Workspace.open(folder / "data") as workspace:
            yield workspace.benchmark(
                ["local", "hybrid", "sqlite", "pageindex", CLASS],
                questions=folder / "questions.jsonl",
                reports=folder / "reports",
                settings=settings,
                **{"latency_sample": 8, "top_k": 5, **options},
            )
