"""What a table can be cut by."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from branchrank.core.records import GoldItem, Question
from branchrank.runs.slices import GoldFacts, gold_facts, slices

PAGE = """# Guide

Prose stands here,
on two lines.

## Part

```
code
more code
```

| a | b |
| - | - |
| 1 | 2 |

### Deep

- an item
- another
"""


def question(start: int | None, end: int | None, source: str = "guide.md", **more: object) -> Question:
    gold = GoldItem(source_file=source, answer_line_start=start, answer_line_end=end, answer_quote="x")
    return Question(id=f"{source}:{start}", question="?", gold=(gold,), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "end", "content", "depth"),
    [
        (3, 4, "prose", 0),
        (8, 11, "code", 1),
        (13, 15, "table", 1),
        (6, 10, "code", 1),
        (17, 20, "prose", 2),
        (4, 9, "code", 1),
        (5, 5, "", 0),
    ],
)
def test_facts_describe_the_type_and_depth_of_the_gold(
    tmp_path: Path, start: int, end: int, content: str, depth: int
) -> None:
    (tmp_path / "guide.md").write_text(PAGE)
    [facts] = gold_facts([question(start, end)], tmp_path)
    assert (facts.content, facts.depth, facts.document_lines) == (content, depth, 20)


def test_an_alias_replaces_a_missing_source(tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text(PAGE)
    renamed = question(8, 11, "old.md", source_aliases=("guide.md",))
    [facts] = gold_facts([renamed], tmp_path)
    assert facts.document_lines == 20
    both = (GoldItem(source_file="b.md", answer_line_start=5, answer_line_end=5), *renamed.gold)
    [facts] = gold_facts([replace(renamed, gold=both)], tmp_path)
    assert facts.blank_lines == {"b.md": (5,), "old.md": ()}, "an alias is of the first gold's file alone"


def test_facts_that_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    gone, outside = question(1, 2, "gone.md"), question(1, 2, "../secret.md")
    assert [(facts.content, facts.depth) for facts in gold_facts([gone, outside], tmp_path)] == [
        ("", None)
    ] * 2
    assert gold_facts([Question(id="u", question="?", answerable=False)], tmp_path) == []


def test_slices_with_only_one_value_are_left_out() -> None:
    questions = [
        question(1, 2, f"{n}.md", kind="howto", difficulty=("easy", "hard")[n % 2]) for n in range(4)
    ]
    facts = {
        each.id: GoldFacts(question_id=each.id, document_lines=(200, 201, 801, 800)[n], depth=n * 2)
        for n, each in enumerate(questions)
    }
    found = slices(questions, facts)
    assert list(found) == ["difficulty", "document size", "depth of the gold"]
    assert found["difficulty"] == {"easy": ["0.md:1", "2.md:1"], "hard": ["1.md:1", "3.md:1"]}
    assert found["document size"] == {
        "up to 200 lines": ["0.md:1"],
        "201 to 800 lines": ["1.md:1", "3.md:1"],
        "over 800 lines": ["2.md:1"],
    }
    assert list(found["document size"]) == ["up to 200 lines", "201 to 800 lines", "over 800 lines"]
    assert list(found["depth of the gold"]) == ["depth 0", "depth 2", "depth 4 and more"]


def test_unanswerable_questions_and_unknown_values_are_in_no_slice() -> None:
    questions = [
        question(1, 2, "a.md", kind="y"),
        question(1, 2, "b.md", kind="x"),
        question(1, 2, "c.md"),
        Question(id="u", question="?", answerable=False, kind="z"),
    ]
    found = slices(questions, {})
    assert found == {"kind": {"x": ["b.md:1"], "y": ["a.md:1"]}}
    assert list(found["kind"]) == ["x", "y"]
