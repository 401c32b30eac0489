"""Checks a question file for validity, leakage, duplicates and coverage, and splits it by document.

1. The validity check reports an error for each gold item with an invalid anchor
   (:mod:`branchrank.questions.anchoring`).
2. The leakage check reports a warning for each question with the same content words as the heading of its
   gold section. A question with at least five content words is also reported if its gold contains all of
   them. Words are compared by their stems, and question words such as "how" are ignored.
3. The duplicates check reports a warning for each question with the same text or the same set of stems as an
   earlier question. Case, spacing and markup are ignored.
4. The coverage check counts the documents and sections that contain gold.

A question file is split into a tuning part and a test part by the documents of its gold.

1. Questions whose first gold item is in the same document, or in an alias of the document, form one group.
   Documents that only a question's other gold items are in (alternates) do not join groups, because a few
   alternates would join most of a corpus; :func:`shared_documents` lists those that both parts have. Each
   question without gold forms its own group.
2. Groups are put in a seeded random order.
3. The smaller part (the part with the smaller requested share) is filled with groups. Groups that would
   exceed the requested share are skipped. All groups that are not added to the smaller part go to the larger
   part.
4. If the smaller part is empty, the smallest skipped group is added to it. The smallest skipped group is also
   added to the smaller part if it brings the size of this part closer to the requested share. A group that is
   the only skipped group is never added, because the larger part would then be empty.
5. The tuning part is filled from the start of the order, and the test part from its end. If all groups have
   the same size, a larger tuning part therefore contains every smaller tuning part with the same seed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from branchrank.core.errors import QuestionError
from branchrank.core.records import GoldItem, Question, Record, Span
from branchrank.core.settings import Bm25Settings
from branchrank.documents.document import Document, Section
from branchrank.documents.lines import normalize
from branchrank.index.stores.analyzer import analyzer
from branchrank.questions.anchoring import Lines, check_anchors, reanchor, span_lines, unrecorded_gold
from branchrank.questions.question_files import draw, without_absent
from branchrank.scoring.matching import is_file_level

#: Returns the stems of a text's words, without stop words and question words.
content_stems = analyzer(Bm25Settings(stop_words="questions", split_identifiers=False))


def leaked_share(question: str, answer: str) -> float:
    """Return the share, in 0..1, of the question's distinct content words that also occur in the answer."""
    asked = frozenset(content_stems(question))
    return len(asked & frozenset(content_stems(answer))) / len(asked) if asked else 0.0


#: The minimum number of content words for reporting a question whose gold contains all of these words.
LEAKING_WORDS = 5


class QuestionProblem(Record, frozen=True, kw_only=True):
    """A problem with one question."""

    check: Literal["validity", "leakage", "duplicates"]
    question_id: str
    message: str

    @property
    def severity(self) -> Literal["error", "warning"]:
        """Only invalid gold is an error."""
        return "error" if self.check == "validity" else "warning"

    def __str__(self) -> str:
        return f"{self.severity}: {self.message}"


class QuestionCheck(Record, frozen=True, kw_only=True):
    """The findings in the order of the checks, notes on gold that the corpus lacks, and the coverage.

    ``questions`` is the number of questions. ``documents_asked`` and ``sections_asked`` count documents and
    sections that contain gold. ``leakage`` is the mean share (0..1) of a question's content words that its
    gold contains. If no question has gold lines, ``leakage`` is ``None``. ``moves`` is whether
    ``questions reanchor`` moves any of the gold that is not valid.
    """

    findings: tuple[QuestionProblem, ...]
    notes: tuple[str, ...]
    questions: int
    unanswerable: int
    file_level: int
    documents: int
    documents_asked: int
    sections: int
    sections_asked: int
    leakage: float | None
    moves: bool

    @property
    def errors(self) -> int:
        """The number of findings that are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


def check_questions(
    questions: Sequence[Question], documents: Sequence[Document], lines: Lines
) -> QuestionCheck:
    """Check questions against a corpus. ``lines`` maps each source in the corpus to its raw lines."""
    questions, notes = without_absent(questions, lines)
    sections = {document.source: document.sections for document in documents}
    findings = [
        QuestionProblem(check="validity", question_id=problem.question_id, message=str(problem))
        for problem in check_anchors(questions, lines)
    ]
    invalid = bool(findings)
    shares = {question.id: share for question in questions if (share := _leaked(question, lines)) is not None}
    findings += _leaks(questions, sections, shares)
    findings += _duplicates(questions)
    asked = {
        (item.source_file, section.line_start)
        for question in questions
        for item in question.gold
        for section in _asked(question, item, sections)
    }
    if note := unrecorded_gold(questions):
        notes.append(note)
    return QuestionCheck(
        findings=tuple(findings),
        notes=tuple(notes),
        questions=len(questions),
        unanswerable=sum(not question.answerable for question in questions),
        file_level=sum(question.gold_level == "file" for question in questions),
        documents=len(documents),
        documents_asked=len({source for source, _ in asked}),
        sections=sum(len(document.sections) for document in documents),
        sections_asked=len(asked),
        leakage=sum(shares.values()) / len(shares) if shares else None,
        moves=invalid and bool(reanchor(questions, lines).moved),
    )


def _leaked(question: Question, lines: Lines) -> float | None:
    """Return the largest share of the question's content words that any one gold item contains."""
    if not content_stems(question.question):
        return None
    shares = [
        leaked_share(question.question, "\n".join(span_lines(span, lines)))
        for item in question.gold
        if (span := item.span) is not None and span.source in lines and not is_file_level(item, question)
    ]
    return max(shares, default=None)


def _leaks(
    questions: Sequence[Question],
    sections: dict[str, tuple[Section, ...]],
    shares: dict[str, float],
) -> Iterator[QuestionProblem]:
    for question in questions:
        words = frozenset(content_stems(question.question))
        headings = (section.title for item in question.gold for section in _asked(question, item, sections))
        heading = next((each for each in headings if words and words == frozenset(content_stems(each))), None)
        if heading is not None:
            what = f"has the same words as the heading of its gold, {heading!r}"
        elif len(words) >= LEAKING_WORDS and shares.get(question.id) == 1:
            what = f"has all of its {len(words)} content words in its gold"
        else:
            continue
        yield QuestionProblem(
            check="leakage", question_id=question.id, message=f"question {question.id!r} {what}"
        )


def near_duplicates(questions: Sequence[Question]) -> list[list[Question]]:
    """Return the groups of two or more questions with the same text, or with the same set of stems."""
    return [group for groups in _same(questions).values() for group in groups.values() if len(group) > 1]


def _same(questions: Sequence[Question]) -> dict[str, dict[object, list[Question]]]:
    """Return the questions by their text, and by their set of stems."""
    stems = analyzer(Bm25Settings(stop_words="english", split_identifiers=False))
    same_text: defaultdict[object, list[Question]] = defaultdict(list)
    same_words: defaultdict[object, list[Question]] = defaultdict(list)
    for question in questions:
        same_text[normalize(question.question)].append(question)
        if words := frozenset(stems(question.question)):
            same_words[words].append(question)
    return {"text": same_text, "words": same_words}


def _duplicates(questions: Sequence[Question]) -> Iterator[QuestionProblem]:
    for manner, groups in _same(questions).items():
        for first, *others in groups.values():
            for other in others:
                if manner == "text" or normalize(first.question) != normalize(other.question):
                    message = f"question {other.id!r} has the same {manner} as question {first.id!r}"
                    yield QuestionProblem(check="duplicates", question_id=other.id, message=message)


def _asked(question: Question, item: GoldItem, sections: dict[str, tuple[Section, ...]]) -> Iterator[Section]:
    """Yield the sections whose own lines overlap a gold item, or the first section if the gold is a page."""
    own = sections.get(item.source_file, ())
    span = item.span
    if is_file_level(item, question) or span is None:
        yield from own[:1]
        return
    for section in own:
        lines = Span(source=span.source, line_start=section.line_start, line_end=section.own_line_end)
        if span.overlap(lines):
            yield section


class Split(NamedTuple):
    """The tuning part and the test part of a question file, each in the order of the file."""

    tuning: list[Question]
    test: list[Question]


def split_questions(questions: Sequence[Question], share: float, seed: int) -> Split:
    """Split the questions by the document of their first gold item.

    ``share`` (greater than 0 and less than 1) is the fraction of all questions that the tuning part should
    contain. Raises :class:`QuestionError` if all questions are in one group.
    """
    groups = _groups(questions)
    if len(groups) < 2:
        raise QuestionError(
            f"the {len(questions)} questions share documents and can't be split",
            remedy="add questions about other documents",
        )

    order = [groups[name] for name in sorted(groups, key=partial(draw, seed))]
    for_tuning = share <= 0.5
    if for_tuning:
        smaller = _filled(order, share * len(questions))
    else:
        smaller = _filled(order[::-1], (1 - share) * len(questions))
    return Split(
        [question for question in questions if (question.id in smaller) == for_tuning],
        [question for question in questions if (question.id in smaller) != for_tuning],
    )


def largest_group(questions: Sequence[Question]) -> int:
    """Return the number of questions in the largest group of questions that share documents."""
    return max(map(len, _groups(questions).values()), default=0)


def _filled(groups: Sequence[Sequence[str]], wanted: float) -> frozenset[str]:
    """Choose groups with about ``wanted`` questions in total, and return the ids of these questions."""
    taken: list[str] = []
    left: list[Sequence[str]] = []
    for group in groups:
        if len(taken) + len(group) <= wanted:
            taken += group
        else:
            left.append(group)
    gap, smallest = wanted - len(taken), min(left, key=len)
    if not taken or (len(left) > 1 and len(smallest) - gap < gap):
        taken += smallest
    return frozenset(taken)


def sources_of(question: Question) -> frozenset[str]:
    """Return the documents that contain a question's gold, and the aliases of these documents."""
    return frozenset(item.source_file for item in question.gold) | frozenset(question.source_aliases)


def shared_documents(*parts: Sequence[Question]) -> list[str]:
    """Return the documents that contain gold of questions in each of the parts."""
    return sorted(frozenset.intersection(*(frozenset[str]().union(*map(sources_of, part)) for part in parts)))


def _groups(questions: Sequence[Question]) -> dict[str, list[str]]:
    """Return a map from the first document of each group to the ids of the group's questions."""
    from scipy.cluster.hierarchy import DisjointSet

    # A group is named after its alphabetically first document, so the order of the questions does not matter.
    names = {
        question.id: sorted({question.gold[0].source_file, *question.source_aliases})
        if question.gold
        else [f"\x00{question.id}"]
        for question in questions
    }
    documents = DisjointSet(source for sources in names.values() for source in sources)
    for first, *others in names.values():
        for other in others:
            documents.merge(first, other)
    first_of = {source: min(subset) for subset in documents.subsets() for source in subset}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for question in questions:
        groups[first_of[names[question.id][0]]].append(question.id)
    return groups
