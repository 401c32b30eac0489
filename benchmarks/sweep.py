"""Measure how much CPU time each additional setting in a sweep takes per question.

    python benchmarks/sweep.py --data-dir data/symfony --questions QUESTIONS.jsonl

The sweep varies the RRF constant of `local` and the expansion of `hybrid`. Each setting is run as a separate
system, which reuses the branch searches of the unchanged system. The time includes the work of the quality
pass (running the stages, matching the hits with the gold and building the rows), but not the statistics. The
CPU time of this process is measured in milliseconds. The fastest of five rounds is used, because other
programs can only make a round slower. Each variant of `local` is named after its RRF constant (such as
`k20`). Each variant of `hybrid` is named after its expansion depth and its number of sibling sections (such
as `2-4`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from branchrank.core.records import Question
from branchrank.core.spec import Expand, Fuse, System
from branchrank.index.reader import Index, open_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.question_files import load_questions
from branchrank.runs.bench.answering import answer
from branchrank.runs.bench.predictors import SystemPredictor
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.memo import Memo

TOP_K = 10
ROUNDS = 5


def variants(system: System) -> list[System]:
    """Return variants of a system, each with a different RRF constant or a different expansion."""
    dense, *others = system.branches
    if dense.expand is None:
        return [msgspec.structs.replace(system, name=f"k{k}", fuse=Fuse(k=k)) for k in range(1, 21)]
    return [
        msgspec.structs.replace(
            system,
            name=f"{depth}-{siblings}",
            branches=(
                msgspec.structs.replace(dense, expand=Expand(depth=depth, siblings=siblings)),
                *others,
            ),
        )
        for depth in (0, 1, 2)
        for siblings in (0, 2, 4)
    ]


def costs(
    workspace: WorkspaceFolder, index: Index, system: System, questions: Sequence[Question]
) -> list[float]:
    """Return the mean CPU time per question in milliseconds for each variant of ``system``."""
    engine = Engine(index, workspace.corpus_root, workspace.settings, memo=Memo())
    for question in questions:
        answer(SystemPredictor(system, engine), question, TOP_K)
    spent = []
    for setting in variants(system):
        predictor = SystemPredictor(setting, engine)
        started = time.process_time()
        for question in questions:
            answer(predictor, question, TOP_K)
        spent.append(1000.0 * (time.process_time() - started) / len(questions))
    return spent


def main() -> None:
    """Measure the CPU time of each setting, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--questions", type=Path, default=Path("data/sample/questions.jsonl"))
    arguments = parser.parse_args()
    workspace = WorkspaceFolder.open(arguments.data_dir, flags={"hybrid.no_llm": True})
    questions = load_questions(arguments.questions)
    print("| system | additional settings | mean, CPU ms per question and setting | most expensive setting |")
    print("| --- | --- | --- | --- |")
    with open_index(workspace) as index:
        for system in builtin_systems(("local", "hybrid"), workspace.settings):
            rounds = [costs(workspace, index, system, questions) for _ in range(ROUNDS)]
            least = [min(spent) for spent in zip(*rounds, strict=True)]
            names = [setting.name for setting in variants(system)]
            dearest = max(range(len(least)), key=least.__getitem__)
            print(
                f"| {system.name} | {len(least)} | {sum(least) / len(least):.3f} "
                f"| {least[dearest]:.3f} ({names[dearest]}) |"
            )


if __name__ == "__main__":
    main()
