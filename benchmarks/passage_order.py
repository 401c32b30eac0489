"""Compare the strict hit rates of several ways to order the candidates' passages, without an LLM.

    python benchmarks/passage_order.py --data-dir data/symfony --questions QUESTIONS.jsonl

1. The first table has rows for `local` (with RRF and with score fusion) and for `hybrid` (with one passage
   per section and with all passages of the pool). The pool is the set of a query's candidates.
2. In the second table, a scripted reranker moves a section with gold to position ``p`` in the pool. The order
   of the other sections is not changed. With p = 1, the reranker is perfect. The ceiling is the percentage of
   questions whose gold is in the pool.

The first three columns are strict hit@1, @5 and @10, as percentages of the questions that have gold. The last
column is the mean number of lines in a hit, over the first five hits of every question.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from branchrank import Workspace
from branchrank.measures.matching import is_strict
from branchrank.questions.question_files import load_questions
from branchrank.ranking.lists import RankedList
from branchrank.ranking.passages import best_of_each, led_by_sections
from branchrank.records import Hit, Question, Retrieval
from branchrank.settings.fields import with_values
from branchrank.systems.builtin import builtin_systems
from branchrank.systems.hits import chunk_hit

ORDERS = {"one of each": best_of_each, "1 / (i * j)": led_by_sections}
SYSTEMS = {
    "local": ("local", {}),
    "local, by score": ("local", {"fuse.method": "score"}),
    "local, by score, 25 lines": ("local", {"fuse.method": "score", "passages.lines": 25}),
    "hybrid, one per section": ("hybrid", {"passages.order": "sections"}),
    "hybrid": ("hybrid", {}),
    "hybrid, 25 lines": ("hybrid", {"passages.lines": 25}),
}


def right(hit: Hit, question: Question) -> bool:
    """Return whether a hit counts as a strict hit."""
    return any(is_strict(hit, item, question) for item in question.gold)


def line(name: str, answers: Sequence[tuple[Question, Sequence[Hit]]]) -> str:
    """Return a table row with the hit rates of ``answers`` and the mean number of lines in a hit."""
    rates = [
        100 * sum(any(right(hit, question) for hit in hits[:k]) for question, hits in answers) / len(answers)
        for k in (1, 5, 10)
    ]
    first = [hit.span.lines for _, hits in answers for hit in hits[:5]]
    return f"{name:36} {rates[0]:5.1f} {rates[1]:5.1f} {rates[2]:5.1f} {sum(first) / len(first):6.1f}"


def placed(sections: Sequence[str], good: Callable[[str], bool], place: int) -> list[str]:
    """Return the sections, with the first correct section moved to position ``place`` (counted from 1)."""
    best = next(filter(good, sections), None)
    others = [section for section in sections if section != best]
    return others if best is None else [*others[: place - 1], best, *others[place - 1 :]]


def main() -> None:
    """Measure the hit rates, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    options = parser.parse_args()
    questions = [question for question in load_questions(options.questions) if question.gold]
    with Workspace.open(options.data_dir, settings={"hybrid.no_llm": True}) as workspace:
        print(f"{len(questions)} questions{'':21} hit@1    @5   @10  lines")
        found: list[tuple[Question, Retrieval]] = []
        for name, (predictor, changes) in SYSTEMS.items():
            (system,) = builtin_systems((predictor,), workspace.settings)
            changed = with_values(system, changes)
            found = [(each, workspace.retrieve(each.question, changed, 10)) for each in questions]
            print(line(name, [(question, answer.hits) for question, answer in found]))
        (system,) = builtin_systems(("hybrid",), workspace.settings)
        pools = []
        for question in questions:
            trace = {stage.stage: stage for stage in workspace.retrieve(question.question, system, 1).trace}
            order = trace["passage order"]
            pools.append((question, trace["cap"].keys, RankedList(order.keys, order.scores)))
        index = workspace.index
        hits = {key: chunk_hit(index.chunks[key]) for _, _, passages in pools for key in passages.ids}
        section_of = {key: index.chunks[key].node_id for key in hits}
        gold = {
            (key, each.id) for each, _, passages in pools for key in passages.ids if right(hits[key], each)
        }
        ceiling = sum(any((key, each.id) in gold for key in passages.ids) for each, _, passages in pools)
        print(f"\nthe gold is in the pool's passages for {100 * ceiling / len(pools):.1f}%")
        for way, order_by in ORDERS.items():
            for place in (1, 2, 3):
                answers = []
                for question, sections, passages in pools:
                    good = {section_of[key] for key in passages.ids if (key, question.id) in gold}
                    led = order_by(passages, section_of, placed(sections, good.__contains__, place))
                    answers.append((question, [hits[key] for key in led.ids[:10]]))
                print(line(f"a correct section at position {place}, {way}", answers))


if __name__ == "__main__":
    main()
