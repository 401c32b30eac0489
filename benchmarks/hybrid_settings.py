"""Show how the settings of ``hybrid`` change its hit rates, without an LLM.

    python benchmarks/hybrid_settings.py sample=data/sample/questions.jsonl:DATA_DIR --write

Each argument is NAME=QUESTIONS:DATA_DIR. The cells are strict hit@1 / hit@5 as percentages of the questions
that have gold, and the number of questions whose first five hits differ from those of the defaults.
``--write`` puts the table into ``docs/systems.md``.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from branchrank import Workspace
from branchrank.core.settings.fields import with_values
from branchrank.questions.question_files import load_questions
from branchrank.scoring.matching import is_strict
from branchrank.search.systems.builtin import builtin_systems

PAGE = Path(__file__).parents[1] / "docs" / "systems.md"
#: The values of each setting beside its default, by the path of its field.
VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "rrf_k": ("fuse.k", (1, 1000)),
    "vector_weight": ("branches.dense.weight", (0.5, 2.0)),
    "bm25_weight": ("branches.bm25.weight", (0.5, 2.0)),
    "neighbor_depth": ("branches.dense.expand.depth", (0, 2)),
    "siblings": ("branches.dense.expand.siblings", (0, 10)),
    "file_roots": ("branches.dense.expand.file_roots", (0, 20)),
    "candidate_cap": ("fuse.cap", (5, 50)),
}
SCORE = {"fuse.method": "score"}
#: The rows: the name, the predictor, and its changed fields.
ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("`hybrid`", "hybrid", {}),
    ("`hybrid --fusion score`", "hybrid", {**SCORE, "passages.order": "scores"}),
    ("`local`", "local", {}),
    ("`local --fusion score`", "local", SCORE),
    *(
        (f"`{name}` {value:g}", "hybrid", {path: value})
        for name, (path, values) in VALUES.items()
        for value in values
    ),
]


def cells(data_dir: Path, questions_file: Path) -> list[str]:
    """Return the cell of each row for one set of questions."""
    questions = [question for question in load_questions(questions_file) if question.gold]
    found: list[str] = []
    defaults: list[list[str]] = []
    with Workspace.open(data_dir, settings={"hybrid.no_llm": True}) as workspace:
        for _, predictor, changes in ROWS:
            (system,) = builtin_systems((predictor,), workspace.settings)
            changed = with_values(system, changes)
            answers = [workspace.retrieve(each.question, changed, 5).hits for each in questions]
            rates = [
                sum(
                    any(is_strict(hit, item, each) for hit in hits[:k] for item in each.gold)
                    for each, hits in zip(questions, answers, strict=True)
                )
                for k in (1, 5)
            ]
            ids = [[hit.id for hit in hits] for hits in answers]
            defaults = defaults or ids
            moved = sum(own != theirs for own, theirs in zip(ids, defaults, strict=True))
            shares = " / ".join(f"{100 * rate / len(questions):.1f}" for rate in rates)
            found.append(f"{shares} ({moved})")
    return found


def main() -> None:
    """Measure every row, and print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sets", nargs="+", metavar="NAME=QUESTIONS:DATA_DIR")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    columns = {}
    for each in options.sets:
        name, _, rest = each.partition("=")
        questions, _, data_dir = rest.rpartition(":")
        columns[name] = cells(Path(data_dir), Path(questions))
    lines = [f"| system | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    lines += [
        f"| {row[0]} | {' | '.join(each)} |" for row, *each in zip(ROWS, *columns.values(), strict=True)
    ]
    table = "\n".join(lines)
    print(table)
    if options.write:
        mark = "<!-- tuning -->\n"
        page = PAGE.read_text(encoding="utf-8")
        block = f"{mark}{table}\n{mark}"
        PAGE.write_text(re.sub(f"{mark}.*?{mark}", lambda _: block, page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
