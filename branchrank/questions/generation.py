"""Questions written by an LLM, each with a quote from the documents that answers the question.

1. Sections with enough text are put in a random order that depends on the seed. One LLM call is made for each
   section, until the requested number of questions is accepted or no section is left.
2. Generation stops after three consecutive failed calls, or after twenty consecutive calls without a usable
   question.
3. For each question, the LLM quotes the text that answers the question. The lines that contain this quote
   become the gold. Questions are rejected if the quote does not occur in the section's own lines. Differences
   in markup and layout are ignored.
4. The leakage of a question is the share of its content words (as stems, without stop words) that the quote
   contains. Questions with too much leakage are rejected, because a keyword search would answer them.
5. A question with nearly the same content words as an earlier question is rejected as a duplicate.
6. Every call is cached, so an interrupted generation can be resumed. The same seed gives the same questions.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, takewhile
from typing import Any

import msgspec

from branchrank.core.errors import InputError
from branchrank.core.io.progress import Progress, no_progress
from branchrank.core.records import SEED, GoldItem, LLMCall, Node, Question, Record, Span
from branchrank.documents.lines import NormalizedLines, normalize
from branchrank.questions.anchoring import Lines
from branchrank.questions.question_checks import content_stems, leaked_share
from branchrank.search.llm.prompts import question_messages, questions_schema, read_json
from branchrank.search.llm.request import CallContext, LLMReply, LLMRequest, ReplyError
from branchrank.search.llm.session import LLMWork
from branchrank.search.systems.llm_choice import CallBounds

STAGE = "question"
MAX_LEAKAGE = 0.8
#: The minimum number of words in a section. No questions are written about shorter sections.
MIN_SECTION_WORDS = 30
#: Generation stops after this number of consecutive failed calls.
MOST_FAILED = 3
#: Generation stops after this number of consecutive calls without a usable question.
MOST_UNUSABLE = 20
_UNUSABLE = ("no question", "malformed reply")
_DUPLICATE = 0.8
_MIN_QUOTE_WORDS = 3
_MIN_QUESTION_WORDS = 3
_SECTION_CHARS = 6000
_QUESTION_CHARS = 300


class GenerationOptions(Record, frozen=True, kw_only=True):
    """The number of questions to write (in all, and for each section), the largest leakage, and the seed."""

    count: int = 100
    per_section: int = 1
    max_leakage: float = MAX_LEAKAGE
    seed: int = SEED


class GeneratedQuestions(Record, frozen=True, kw_only=True):
    """The accepted questions, and the numbers of rejected questions and failed calls.

    ``leakage`` maps the id of each question to the question's leakage, in 0..1. ``rejected`` maps each reason
    to the number of rejected questions. ``stopped`` is the reason why generation stopped early, or an empty
    string.
    """

    questions: tuple[Question, ...]
    leakage: dict[str, float]
    rejected: dict[str, int]
    sections_asked: int
    failed_calls: int
    stopped: str = ""

    @property
    def mean_leakage(self) -> float:
        """The mean leakage of the accepted questions, in 0..1. Without questions, the mean is 0.0."""
        return sum(self.leakage.values()) / len(self.leakage) if self.leakage else 0.0


class _Draft(Record, frozen=True, kw_only=True):
    question: str
    quote: str


def generate_questions(
    sections: Sequence[Node],
    lines: Lines,
    work: LLMWork,
    options: GenerationOptions,
    *,
    progress: Progress = no_progress,
) -> GeneratedQuestions:
    """Write up to ``options.count`` questions about the sections with the LLM of ``work``.

    ``lines`` maps each source to its raw lines. Duplicates are rejected. The questions
    do not depend on the number of concurrent calls. Raises the same errors as :meth:`Gateway.ask`.
    """
    count, per_section = options.count, options.per_section
    verify = _Verifier(lines, options.max_leakage)
    calls: list[LLMCall] = []
    faults: list[str | None] = []
    stopped = ""
    waiting = iter(_drawn(sections, lines, options.seed))
    while (missing := count - len(verify.accepted)) > 0 and not stopped:
        failed, _ = _streaks(faults)
        most = MOST_FAILED - failed if failed else MOST_UNUSABLE
        size = min(work.at_once, math.ceil(missing / per_section), most if calls else 1)
        wave = list(islice(waiting, size))
        if not wave:
            break
        answers = work.ask_all([_request(node, lines, options, work.llm.max_tokens) for node in wave], _read)
        calls += [answer.call for answer in answers]
        for node, answer in zip(wave, answers, strict=True):
            for draft in answer.value or ():
                if len(verify.accepted) < count:
                    verify.take(node, draft)
            faults.append(answer.fault)
            failed, unusable = _streaks(faults)
            if failed >= MOST_FAILED or unusable >= MOST_UNUSABLE:
                stopped = f"{unusable} calls in a row gave no usable question: {answer.call.failure}"
                break
        progress("questions", len(verify.accepted), count)
    return GeneratedQuestions(
        questions=tuple(verify.accepted),
        leakage=verify.leakage,
        rejected=dict(sorted(verify.rejected.items())),
        sections_asked=len(calls),
        failed_calls=sum(call.outcome != "ok" for call in calls),
        stopped=stopped,
    )


def estimate_generation(
    sections: Sequence[Node], lines: Lines, options: GenerationOptions, max_tokens: int
) -> tuple[CallBounds, CallBounds]:
    """Return the least and the most calls and tokens of :func:`generate_questions`.

    Replies are assumed to have their maximum length. The first estimate assumes that every question is
    accepted, and the second one assumes one call for every section.
    """
    drawn = _drawn(sections, lines, options.seed)
    prompts = [_request(node, lines, options, max_tokens).prompt_tokens for node in drawn]

    def first(calls: int) -> CallBounds:
        return CallBounds(
            calls=calls, prompt_tokens=sum(prompts[:calls]), completion_tokens=calls * max_tokens
        )

    least = min(len(drawn), math.ceil(options.count / options.per_section))
    return first(least), first(len(drawn))


def find_quote(quote: str, span: Span, lines: Sequence[str]) -> Span | None:
    """Return the first lines inside ``span`` that contain the quote, or ``None`` if no lines contain it.

    Differences in markup and layout are ignored.
    """
    wanted, above = normalize(quote), span.line_start - 1
    places = NormalizedLines.of(lines[above : span.line_end]).quoted(wanted) if wanted else []
    if not places:
        return None
    first, last = places[0]
    return Span(source=span.source, line_start=above + first, line_end=above + last)


def _streaks(faults: Sequence[str | None]) -> tuple[int, int]:
    """Return the numbers of the last consecutive calls that failed, and that gave no usable question."""
    unusable = list(takewhile(lambda fault: fault is not None, reversed(faults)))
    return len(list(takewhile(lambda fault: fault not in _UNUSABLE, unusable))), len(unusable)


class _Verifier:
    """Accepts or rejects the questions that the LLM wrote."""

    def __init__(self, lines: Lines, max_leakage: float) -> None:
        self.lines = lines
        self.max_leakage = max_leakage
        self.accepted: list[Question] = []
        self.leakage: dict[str, float] = {}
        self.rejected: Counter[str] = Counter()
        self._seen: list[frozenset[str]] = []

    def take(self, node: Node, draft: _Draft) -> None:
        span = node.own_span
        assert span is not None
        question = " ".join(draft.question.split())[:_QUESTION_CHARS]
        words = frozenset(content_stems(question))
        gold = find_quote(draft.quote, span, self.lines[node.source])
        leaked = leaked_share(question, draft.quote)
        quote = normalize(draft.quote)
        faults = {
            "question too short": len(question.split()) < _MIN_QUESTION_WORDS or not words,
            "quote too short": len(quote.split()) < _MIN_QUOTE_WORDS or quote == normalize(node.title),
            "quote not in the section": gold is None,
            "answer's wording leaked": leaked > self.max_leakage,
            "duplicate": any(len(words & seen) >= _DUPLICATE * len(words | seen) for seen in self._seen),
        }
        reason = next((name for name, is_fault in faults.items() if is_fault), "")
        if reason or gold is None:
            self.rejected[reason] += 1
            return
        self._seen.append(words)
        key = "llm-" + hashlib.sha256(f"{node.id}\0{question}".encode()).hexdigest()[:12]
        self.leakage[key] = leaked
        self.accepted.append(
            Question(
                id=key,
                question=question,
                gold=(GoldItem.of(gold, quote=" ".join(draft.quote.split())),),
                kind="generated",
                section_title=node.title,
                extra={"leakage": round(leaked, 3)},
            )
        )


def _drawn(sections: Sequence[Node], lines: Lines, seed: int) -> list[Node]:
    """Return the sections with enough text, in an order that depends only on the seed and the node ids.

    Raises :class:`InputError` if no section has enough text.
    """
    long = [
        node
        for node in sections
        if node.own_span and node.source in lines and len(node.text.split()) >= MIN_SECTION_WORDS
    ]
    if not long:
        raise InputError(
            f"no section of the corpus has {MIN_SECTION_WORDS} words", remedy="choose a corpus with more text"
        )
    return sorted(long, key=lambda node: hashlib.sha256(f"{seed}/{node.id}".encode()).digest())


def _request(node: Node, lines: Lines, options: GenerationOptions, max_tokens: int) -> LLMRequest:
    assert node.line_start is not None
    text = "\n".join(lines[node.source][node.line_start - 1 : node.own_line_end])[:_SECTION_CHARS]
    return LLMRequest(
        stage=STAGE,
        messages=question_messages(node.breadcrumb or node.title, text, options.per_section),
        schema=questions_schema(options.per_section),
        max_tokens=max_tokens,
        context=CallContext(question_id=node.id, predictor="questions", seed=options.seed),
    )


def _read(reply: LLMReply) -> list[_Draft]:
    value: Any = read_json(reply.text)
    items = value.get("questions", [value]) if isinstance(value, dict) else value
    drafts = []
    for item in items if isinstance(items, list) else ():
        with suppress(msgspec.ValidationError):
            drafts.append(msgspec.convert(item, _Draft))
    if not drafts:
        raise ReplyError("no question")
    return drafts
