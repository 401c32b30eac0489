"""Measure each predictor's CPU time per question, with and without the time to embed the question.

    python benchmarks/cpu_per_question.py --data-dir data/symfony --questions QUESTIONS.jsonl

No predictor uses an LLM. No question uses cached results from another question. The first answer of each
predictor is not counted. CPU times are those of this process, in milliseconds. Each round measures the mean
time per question, and the median of five rounds is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from branchrank.index.reader import open_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.question_files import load_questions
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.memo import QueryMemo

#: The CPU time per question, in milliseconds, of an earlier prototype that embedded questions on a server.
EARLIER = {"local": 34.0, "hybrid": 41.0, "pageindex": 560.0}
ROUNDS = 5


def main() -> None:
    """Measure the CPU time of each predictor, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--questions", type=Path, default=Path("data/sample/questions.jsonl"))
    arguments = parser.parse_args()
    flags = {"hybrid.no_llm": True, "pageindex.no_llm": True}
    workspace = WorkspaceFolder.open(arguments.data_dir, flags=flags)
    questions = load_questions(arguments.questions)
    print(
        "| predictor | CPU ms per question | embedding, ms | without embedding, ms "
        "| proof of concept, ms | ratio |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    with open_index(workspace) as index:
        engine = Engine(index, workspace.corpus_root, workspace.settings, memo=QueryMemo())
        for system in builtin_systems(tuple(EARLIER), workspace.settings):
            engine.retrieve(system, questions[0].question, 10)
            whole, embedding = [], []
            for _ in range(ROUNDS):
                started, spent = time.process_time(), 0.0
                for question in questions:
                    found = engine.retrieve(system, question.question, 10)
                    spent += found.stage_ms.get("embed cpu", 0.0)
                whole.append(1000.0 * (time.process_time() - started) / len(questions))
                embedding.append(spent / len(questions))
            total, embed = statistics.median(whole), statistics.median(embedding)
            earlier = EARLIER[system.name]
            print(
                f"| {system.name} | {total:.2f} | {embed:.2f} | {total - embed:.2f} | {earlier:.0f} "
                f"| {total / earlier:.3f} |"
            )


if __name__ == "__main__":
    main()
