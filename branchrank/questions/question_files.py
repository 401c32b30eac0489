"""Question files: reading, sampling, writing.

A line is one JSON object with the names of the file format (``id``, ``question``, ``source_file``,
``answer_line_start``, ...). The first gold item is in the line's own keys; ``alternates`` holds the others.
Unknown keys are kept and written back. A line without an ``id`` gets one made from its question and the files
of its gold, so that it stays the same when lines move.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from branchrank.artifacts import digest_of, write_bytes, write_jsonl
from branchrank.errors import QuestionError, nearest_path
from branchrank.records import GoldItem, GoldLevel, Question, Record, Span
from branchrank.safe_open import read_file


class _ExcludedSpan(Record, frozen=True, kw_only=True):
    source_file: str
    line_start: int
    line_end: int


class _Line(Record, frozen=True, kw_only=True):
    """The keys of a question line that BranchRank knows."""

    id: str | None = None
    question: str
    source_file: str | None = None
    answer_line_start: int | None = None
    answer_line_end: int | None = None
    answer_quote: str | None = None
    answer_digest: str | None = None
    relevance: int | None = None
    kind: str = ""
    difficulty: str = ""
    required_entity: str | None = None
    section_title: str | None = None
    alternates: tuple[GoldItem, ...] = ()
    answerable: bool = True
    gold_level: GoldLevel = "span"
    excluded_spans: tuple[_ExcludedSpan, ...] = ()
    source_aliases: tuple[str, ...] = ()


#: The prefix of an id that is made from the content.
_MADE = "q-"
_KNOWN = frozenset(_Line.__struct_fields__)


def load_questions(path: Path) -> list[Question]:
    """Read a question file. Raises :class:`QuestionError` naming the file and every wrong line."""
    problems: list[str] = []
    questions: dict[str, Question] = {}
    try:
        lines = read_file(path).removeprefix(codecs.BOM_UTF8).split(b"\n")
    except OSError as error:
        raise QuestionError(
            f"cannot read the questions {path}: {error.strerror}{nearest_path(path)}",
            remedy="name a question file with --questions",
        ) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            question = _question(line)
            if question.id in questions:
                raise ValueError(
                    f"the id {question.id!r} is used before"
                    + (": the same question about the same files" if question.id.startswith(_MADE) else "")
                )
            questions[question.id] = question
        except RecursionError:
            problems.append(f"{path}:{number}: nested too deeply")
        except (msgspec.DecodeError, ValueError) as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        shown = problems[:10] + ([f"... and {len(problems) - 10} more"] if len(problems) > 10 else [])
        raise QuestionError(
            "\n".join(shown), remedy=f"correct {path}, then `branchrank questions check {path}`"
        )
    if not questions:
        raise QuestionError(f"{path} holds no questions", remedy="name a question file with --questions")
    return list(questions.values())


def _question(line: bytes) -> Question:
    raw = msgspec.json.decode(line)
    if not isinstance(raw, dict):
        raise ValueError(f"expected a JSON object, not {type(raw).__name__}")
    known = msgspec.convert({key: value for key, value in raw.items() if key in _KNOWN}, _Line)
    extra = {key: value for key, value in raw.items() if key not in _KNOWN}
    if not known.question.strip() or (known.id is not None and not known.id.strip()):
        raise ValueError("`id` and `question` must not be empty")
    gold: list[GoldItem] = []
    if known.source_file is not None:
        gold.append(
            GoldItem(
                source_file=known.source_file,
                answer_line_start=known.answer_line_start,
                answer_line_end=known.answer_line_end,
                answer_quote=known.answer_quote,
                answer_digest=known.answer_digest,
                relevance=known.relevance,
            )
        )
    gold.extend(known.alternates)
    if known.answerable and not gold:
        raise ValueError("no gold: give `source_file`, or say `answerable: false`")
    if not known.answerable and gold:
        raise ValueError("the question has gold, but says `answerable: false`: remove one of them")
    for item in gold:
        _check_gold(item, known.gold_level)
    return Question(
        id=known.id or _made_id(known.question, gold),
        question=known.question,
        gold=tuple(gold),
        answerable=known.answerable,
        kind=known.kind,
        difficulty=known.difficulty,
        required_entity=known.required_entity,
        section_title=known.section_title,
        gold_level=known.gold_level,
        excluded_spans=tuple(
            Span(source=span.source_file, line_start=span.line_start, line_end=span.line_end)
            for span in known.excluded_spans
        ),
        source_aliases=known.source_aliases,
        extra=extra,
    )


def _made_id(question: str, gold: Sequence[GoldItem]) -> str:
    """An id from what a question asks and of which files, not of which lines."""
    return _MADE + digest_of([question, sorted(item.source_file for item in gold)])[:12]


def _check_gold(item: GoldItem, level: GoldLevel) -> None:
    start, end = item.answer_line_start, item.answer_line_end
    if (start is None) != (end is None):
        raise ValueError("`answer_line_start` and `answer_line_end` belong together")
    if start is not None and end is not None and not 1 <= start <= end:
        raise ValueError(f"lines {start}..{end} are not a span: 1 <= start <= end")
    if item.relevance is not None and item.relevance < 1:
        raise ValueError(f"a relevance of {item.relevance} is not gold: it must be at least 1")
    if level == "span" and start is None and not item.answer_quote:
        raise ValueError("gold of level `span` needs lines or an `answer_quote`")


def question_line(question: Question) -> dict[str, Any]:
    """A question as the JSON object of its line, defaults left out."""
    line: dict[str, Any] = {"id": question.id, "question": question.question}
    if question.gold:
        first = msgspec.to_builtins(question.gold[0])
        line.update({key: value for key, value in first.items() if value is not None})
    for name in ("kind", "difficulty", "required_entity", "section_title"):
        if getattr(question, name):
            line[name] = getattr(question, name)
    if len(question.gold) > 1:
        line["alternates"] = [
            {key: value for key, value in msgspec.to_builtins(item).items() if value is not None}
            for item in question.gold[1:]
        ]
    if not question.answerable:
        line["answerable"] = False
    if question.gold_level != "span":
        line["gold_level"] = question.gold_level
    if question.excluded_spans:
        line["excluded_spans"] = [
            {"source_file": span.source, "line_start": span.line_start, "line_end": span.line_end}
            for span in question.excluded_spans
        ]
    if question.source_aliases:
        line["source_aliases"] = list(question.source_aliases)
    return {**line, **question.extra}


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write a question file atomically."""
    write_jsonl(path, (question_line(question) for question in questions))


def append_question(path: Path, question: Question) -> Question:
    """Append a question to a question file, which may not exist yet; the other lines stay unchanged.

    A question without an id gets one made from its content. Raises :class:`QuestionError` if the file is
    wrong, or already has the id.
    """
    if not question.id:
        question = msgspec.structs.replace(question, id=_made_id(question.question, question.gold))
    before = path.read_bytes() if path.exists() else b""
    if before.strip() and question.id in {each.id for each in load_questions(path)}:
        raise QuestionError(
            f"{path} has a question {question.id!r} already", remedy=f"give another --id, or edit {path}"
        )
    if before and not before.endswith(b"\n"):
        before += b"\n"
    write_bytes(path, before + msgspec.json.encode(question_line(question)) + b"\n")
    return question


HASHED = "sha256:"


def hashed(question: Question) -> Question:
    """Return the question with its wording, titles and quotes replaced by their SHA-256.

    The rest gives the place of the gold, and can be shared even if the text can't.
    """
    return msgspec.structs.replace(
        question,
        question=_hash(question.question),
        section_title=_hash(question.section_title) if question.section_title else None,
        required_entity=_hash(question.required_entity) if question.required_entity else None,
        gold=tuple(
            msgspec.structs.replace(item, answer_quote=_hash(item.answer_quote))
            if item.answer_quote
            else item
            for item in question.gold
        ),
    )


def _hash(text: str) -> str:
    if text.startswith(HASHED):
        return text
    return HASHED + hashlib.sha256(text.encode("utf-8")).hexdigest()


def questions_digest(questions: Sequence[Question]) -> str:
    """SHA-256 over the questions in the order of their ids, the same with their wording hashed."""
    ordered = sorted(questions, key=lambda question: question.id)
    return digest_of([question_line(hashed(question)) for question in ordered])


def sample_questions(questions: Sequence[Question], size: int, seed: int) -> list[Question]:
    """Draw ``size`` questions (0: all) by the seed and the question's id alone, in the order of ids.

    A question's place in the draw is the SHA-256 of seed and id, so that the sample does not depend on the
    file's order, and a larger sample contains a smaller one. Raises :class:`QuestionError` when there are
    fewer than ``size``.
    """
    if size > len(questions):
        raise QuestionError(
            f"a sample of {size} from {len(questions)} questions",
            remedy=f"--sample-size {len(questions)}, or 0 for all",
        )

    def draw(question: Question) -> str:
        return hashlib.sha256(f"{seed}\x00{question.id}".encode()).hexdigest()

    drawn = sorted(questions, key=draw)[:size] if size else list(questions)
    return sorted(drawn, key=lambda question: question.id)


def check_wording(questions: Sequence[Question], path: Path) -> None:
    """Raise :class:`QuestionError` if the file holds digests in place of the questions' wording."""
    if any(question.question.startswith(HASHED) for question in questions):
        raise QuestionError(
            f"{path} holds digests of its questions, not their wording",
            remedy="pass the file that the run was made from: --questions FILE",
        )


#: The key that marks a question as an example, to be replaced.
EXAMPLE = "example"

#: The key of a question with file-level gold that lists the gold files that the corpus lacks.
ABSENT_GOLD = "absent_gold"


def may_be_absent(item: GoldItem, question: Question) -> bool:
    """Return whether the question lists this gold, a whole file, as missing from the corpus."""
    given = question.extra.get(ABSENT_GOLD)
    return question.gold_level == "file" and isinstance(given, list) and item.source_file in given


def without_absent(
    questions: Sequence[Question], sources: Container[str]
) -> tuple[list[Question], list[str]]:
    """Return the questions without the gold that they list as absent, and a note on each such question."""
    present, notes = [], []
    for question in questions:
        gold = tuple(
            item for item in question.gold if item.source_file in sources or not may_be_absent(item, question)
        )
        present.append(msgspec.structs.replace(question, gold=gold))
        if count := len(question.gold) - len(gold):
            notes.append(
                f"question {question.id!r}: {count} of {len(question.gold)} gold files are not in the "
                f"corpus, as its `{ABSENT_GOLD}` says"
            )
    return present, notes


def check_sources(questions: Sequence[Question], line_counts: dict[str, int]) -> list[str]:
    """List what is wrong with the gold, given each source's number of lines."""
    questions, _ = without_absent(questions, line_counts)
    problems = []
    for question in questions:
        for item in question.gold:
            count = line_counts.get(item.source_file)
            if count is None and not set(question.source_aliases) & line_counts.keys():
                problems.append(f"question {question.id!r}: the corpus has no file {item.source_file!r}")
            elif count is not None and item.answer_line_end is not None and item.answer_line_end > count:
                problems.append(
                    f"question {question.id!r}: line {item.answer_line_end} is past the end of "
                    f"{item.source_file} ({count} lines)"
                )
    return problems
