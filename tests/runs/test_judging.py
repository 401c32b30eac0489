"""What a row keeps of a hit."""

from __future__ import annotations

import msgspec
from support.gold import gold
from support.predictors import Scripted, passage

from branchrank.core.records import Question
from branchrank.documents.chunking import token_counter
from branchrank.runs.bench.answering import answer
from branchrank.runs.scores import Scores, judged_hits, standard_measures
from branchrank.runs.summary import summarize

TEXTS = ("short", "Configure the routing_component with `App\\Kernel`.", "", "日本語 text\n\n" * 40)


def test_a_row_counts_characters_and_tokens_of_each_text() -> None:
    question = Question(id="q", question="?", gold=(gold("a.md", 1, 2),))
    hits = [
        msgspec.structs.replace(passage("a.md", number, number), text=text, plain=text)
        for number, text in enumerate(TEXTS, start=1)
    ]
    kept = judged_hits(hits, question)
    assert [hit.characters for hit in kept] == [len(text) for text in TEXTS]
    assert [hit.tokens for hit in kept] == [token_counter()(text) for text in TEXTS]
    assert kept[2].tokens == 0 < kept[1].tokens < kept[3].tokens


def test_sizes_are_over_the_first_five_hits_of_answerable_questions() -> None:
    answerable = Question(id="a", question="?", gold=(gold("a.md", 1, 2),))
    hopeless = Question(id="b", question="?", answerable=False)
    words = msgspec.structs.replace(passage("a.md", 1, 2), plain="red green blue")
    rows = [
        answer(Scripted("p", {"a": [words] * 5 + [passage("b.md", 1, 9)]}), answerable, 10),
        answer(Scripted("p", {"b": [msgspec.structs.replace(words, plain="red " * 90)]}), hopeless, 10),
    ]
    [line] = summarize(Scores(rows, [answerable, hopeless]), [], standard_measures("both"))
    assert (line.characters_per_hit, line.tokens_per_hit, line.lines_per_hit) == (14, 3, 2)
