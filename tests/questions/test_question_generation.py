"""Generated questions: gold that was found, leakage that was measured, nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import scripted_llm as scripted
from support.scripted_llm import Action, Chat, ScriptedLLM

from branchrank.core.records import Node, Span
from branchrank.core.settings import LLMSettings
from branchrank.questions.generation import (
    GeneratedQuestions,
    GenerationOptions,
    find_quote,
    generate_questions,
)
from branchrank.questions.question_checks import leaked_share
from branchrank.questions.question_files import load_questions, write_questions
from branchrank.search.llm.request import BudgetError
from branchrank.search.llm.session import LLMSession, LLMWork

TOPICS = ["caching", "mail", "forms", "routing", "security", "logging"]


def section(topic: str, start: int) -> tuple[Node, list[str]]:
    lines = [
        topic.title(),
        "-------",
        "",
        f"To enable **{topic}**, put ``{topic}: true``",
        "into the main settings file.",
        "",
        " ".join(f"{topic}{n} filler" for n in range(20)),
    ]
    node = Node(
        id=f"guide.rst#{topic}",
        parent_id="guide.rst",
        depth=2,
        kind="section",
        title=topic.title(),
        text=" ".join(lines),
        source="guide.rst",
        breadcrumb=f"Guide > {topic.title()}",
        line_start=start,
        line_end=start + len(lines) - 1,
        own_line_end=start + len(lines) - 1,
    )
    return node, lines


def corpus() -> tuple[list[Node], dict[str, list[str]]]:
    nodes, lines = [], []
    for topic in TOPICS:
        node, own = section(topic, len(lines) + 1)
        nodes.append(node)
        lines += own
    return nodes, {"guide.rst": lines}


def topic_of(chat: Chat) -> str:
    return chat.prompt.partition("Section: Guide > ")[2].partition("\n")[0].lower()


def drafts(*pairs: tuple[str, str]) -> Action:
    return scripted.say(json.dumps({"questions": [{"question": q, "quote": a} for q, a in pairs]}))


def honest(chat: Chat, number: int) -> Action:
    topic = topic_of(chat)
    return drafts(
        (f"How can I switch on {topic} here?", f"To enable {topic}, put {topic}: true into the main")
    )


@pytest.fixture
def generate(tmp_path: Path) -> Any:
    server = ScriptedLLM(honest)

    def run(script: Callable[[Chat, int], Action], **options: Any) -> GeneratedQuestions:
        server.script = script
        server.requests = []
        llm = {key: options.pop(key) for key in ("max_calls", "concurrency") if key in options}
        cache = tmp_path / "c.sqlite" if options.pop("cached", False) else None
        nodes, lines = corpus()
        run.requests = server.requests  # type: ignore[attr-defined]
        with LLMSession(LLMSettings(retries=0, **llm), cache_path=cache, environment={}) as session:
            gateway = session.gateway(server.base_url, "m")
            wanted = GenerationOptions(**({"count": 10} | options))
            return generate_questions(nodes, lines, LLMWork(gateway), wanted)

    yield run
    server.__exit__()


def test_a_draft_in_the_reasoning_is_not_a_question(generate: Any) -> None:
    def script(chat: Chat, number: int) -> Action:
        quote = f"To enable {topic_of(chat)}"
        draft, kept = (
            json.dumps({"questions": [{"question": f"{word} can I use here?", "quote": quote}]})
            for word in ("DRAFT", f"How {topic_of(chat)}")
        )
        return scripted.say(f"<think>Maybe {draft}</think>{kept}")

    questions = [question.question for question in generate(script, max_leakage=1.0).questions]
    assert len(questions) == len(TOPICS)
    assert not any("DRAFT" in question for question in questions)


def test_gold_is_the_lines_that_hold_the_quote(generate: Any, tmp_path: Path) -> None:
    result = generate(honest)
    assert len(result.questions) == len(TOPICS)
    _, lines = corpus()
    for question in result.questions:
        (gold,) = question.gold
        held = lines["guide.rst"][gold.answer_line_start - 1 : gold.answer_line_end]
        assert len(held) == 2
        assert held[0].startswith("To enable")
        assert held[1].startswith("into the main")
    write_questions(tmp_path / "q.jsonl", result.questions)
    assert load_questions(tmp_path / "q.jsonl") == list(result.questions)


def test_leakage_is_measured_per_question_and_in_total(generate: Any) -> None:
    result = generate(honest)
    # "switch", "caching", "here"... of which the quote has the topic alone.
    for question in result.questions:
        expected = leaked_share(question.question, question.gold[0].answer_quote)
        assert result.leakage[question.id] == expected
        assert 0 < expected < 1
        assert question.extra == {"leakage": round(expected, 3)}
    assert result.mean_leakage == sum(result.leakage.values()) / len(TOPICS)


@pytest.mark.parametrize(
    ("question", "quote", "reason"),
    [
        ("How do I get {topic} going?", "This sentence was made up entirely.", "quote not in the section"),
        ("How do I get {topic} going?", "To enable other, put", "quote not in the section"),
        ("How do I get {topic} going?", "true", "quote too short"),
        ("How do I get {topic} going?", "", "quote too short"),
        ("What?", "into the main settings file.", "question too short"),
        ("how to do it?", "into the main settings file.", "question too short"),
        ("enable main settings file?", "into the main settings file.", None),
        (
            "main settings file {topic}?",
            "put {topic}: true into the main settings file.",
            "answer's wording leaked",
        ),
    ],
)
def test_each_kind_of_bad_draft_is_rejected_and_counted(
    generate: Any, question: str, quote: str, reason: str | None
) -> None:
    def script(chat: Chat, number: int) -> Action:
        topic = topic_of(chat)
        return drafts((question.format(topic=topic), quote.format(topic=topic)))

    result = generate(script)
    if reason is None:
        assert len(result.questions) == 1
        assert result.rejected == {"duplicate": len(TOPICS) - 1}
    else:
        assert result.questions == ()
        assert result.rejected == {reason: len(TOPICS)}


def test_generation_stops_at_the_count_and_depends_on_the_seed(generate: Any) -> None:
    ids = [[q.id for q in generate(honest, count=3, seed=seed).questions] for seed in (1, 1, 2)]
    assert len(ids[0]) == 3
    assert ids[0] == ids[1] != ids[2]
    assert len(generate.requests) <= 4


def test_an_interrupted_pass_resumes_and_gives_the_same_questions(generate: Any) -> None:
    with pytest.raises(BudgetError):
        generate(honest, cached=True, max_calls=3, concurrency=1)
    assert len(generate.requests) == 3
    resumed = generate(honest, cached=True)
    assert len(generate.requests) == len(TOPICS) - 3
    assert resumed.questions == generate(honest).questions


@pytest.mark.parametrize(
    "text", ["no idea", "[]", '{"questions": [{"question": 3}]}', '{"questions": 7}', "{}"]
)
def test_a_reply_without_questions_is_a_failed_call(generate: Any, text: str) -> None:
    result = generate(lambda chat, n: scripted.say(text))
    assert result.questions == ()
    assert result.failed_calls == result.sections_asked == len(TOPICS)
    assert result.failed_calls == len(TOPICS)


@given(st.lists(st.text("ab *`\t", max_size=8), min_size=1, max_size=8), st.data())
def test_a_quote_that_is_part_of_its_lines_is_found(lines: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(first, len(lines)))
    whole = Span(source="s", line_start=1, line_end=len(lines))
    quote = "\n".join(lines[first - 1 : last])
    found = find_quote(quote, whole, lines)
    if not quote.translate(str.maketrans("", "", "*`")).split():
        assert found is None
        return
    assert found is not None
    assert find_quote(quote, found, lines) == found
    shorter = Span(source="s", line_start=found.line_start, line_end=found.line_end - 1)
    assert find_quote(quote, shorter, lines) is None
