"""Read, sample and write question files.

Each line of a question file is one JSON object with keys such as ``id``, ``question``, ``source_file`` and
``answer_line_start``. The first gold item is stored in top-level keys, the key ``alternates`` lists other
gold items, and ``needs`` lists groups of gold items that are needed together. Unknown keys are kept. If a
line has no ``id``, an id is made from the question and the gold files. The gold lines are not part of this
id, because they may move.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, product
from pathlib import Path
from typing import Any

import msgspec

from branchrank.core.errors import QuestionError, Remedies, Remedy
from branchrank.core.io.files import digest_bytes, digest_of, only_writer, write_jsonl, write_text
from branchrank.core.io.text_files import read_text, text_lines
from branchrank.core.records import GoldItem, GoldLevel, Question, Record, Span


class _ExcludedSpan(Record, frozen=True, kw_only=True):
    source_file: str
    line_start: int
    line_end: int


class _Line(Record, frozen=True, kw_only=True):
    """The keys that BranchRank uses in a line of a question file, in the order in which they are written."""

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
    needs: tuple[tuple[GoldItem, ...], ...] = ()
    answerable: bool = True
    gold_level: GoldLevel = "span"
    excluded_spans: tuple[_ExcludedSpan, ...] = ()
    source_aliases: tuple[str, ...] = ()


#: The keys with their default values.
_KNOWN = dict(zip(_Line.__struct_fields__, _Line.__struct_defaults__, strict=True))
#: The suggested fix when a command with the ``--questions`` flag can't read the question file.
GIVE_QUESTIONS = Remedy("give a question file with {}", "--questions")


def load_questions(path: Path, *, remedy: Remedies = "pass the path of a question file") -> list[Question]:
    """Read a question file.

    Raises :class:`QuestionError` with the problems in the first ten invalid lines. If the file can't be read
    or is empty, the error suggests ``remedy`` as the fix.
    """
    problems: list[str] = []
    questions: dict[str, Question] = {}
    correct = f"correct {path}, then run `branchrank questions check {path}`"
    try:
        lines = list(text_lines(path, error=QuestionError, remedy=correct))
    except OSError as error:
        message = f"cannot read the questions {path}: {error.strerror}"
        raise QuestionError(message, remedy=remedy) from error
    for number, line in lines:
        if not line.strip():
            continue
        try:
            question = _question(line)
            if question.id in questions:
                raise ValueError(f"an earlier line has the same id {question.id!r}")
            questions[question.id] = question
        except RecursionError:
            problems.append(f"{path}:{number}: the JSON is nested too deeply")
        except (msgspec.DecodeError, ValueError) as error:
            array = "; write one JSON object per line, not an array" if line.lstrip()[:1] == "[" else ""
            problems.append(f"{path}:{number}: {error}{array}")
    refuse(problems, correct)
    if not questions:
        raise QuestionError(f"{path} has no questions", remedy=remedy)
    return list(questions.values())


def refuse(problems: Sequence[str], remedy: str) -> None:
    """Raise :class:`QuestionError` with the first ten problems, if there are any."""
    if problems:
        shown = [*problems[:10], *([f"... and {len(problems) - 10} more"] if len(problems) > 10 else [])]
        raise QuestionError("\n".join(shown), remedy=remedy)


def folded(text: str) -> str:
    """Return a question's text without differences in case and spacing."""
    return " ".join(text.casefold().split())


def _is_slip(key: str, known: str) -> bool:
    """Return whether one inserted, missing, wrong or swapped letter makes the difference."""
    from rapidfuzz.distance import OSA

    return OSA.distance(key.casefold(), known, score_cutoff=1) <= 1


def _question(line: str) -> Question:
    raw = msgspec.json.decode(line)
    if not isinstance(raw, dict):
        raise ValueError(f"expected a JSON object, not {type(raw).__name__}")
    extra = {key: value for key, value in raw.items() if key not in _KNOWN}
    for key in extra:
        if meant := next((each for each in _KNOWN if len(each) > 3 and _is_slip(key, each)), None):
            raise ValueError(f"unknown key {key!r}: did you mean {meant!r}?")
    known = msgspec.convert(
        _portable({key: value for key, value in raw.items() if key in _KNOWN}), _Line, strict=False
    )
    if not known.question.strip() or (known.id is not None and not known.id.strip()):
        raise ValueError("`id` and `question` must not be empty")
    given = msgspec.structs.asdict(known)
    first = {name: given.pop(name) for name in GoldItem.__struct_fields__}
    own = [] if known.source_file is None else [GoldItem(**first)]
    own += given.pop("alternates")
    gold, given["needs"] = with_needs(own, known.needs)
    given["listed"] = len(own) if known.needs else None
    if known.answerable and not gold:
        raise ValueError("no gold: add `source_file`, or set `answerable` to false (a label adds gold)")
    if not known.answerable and gold:
        raise ValueError("the question has gold and `answerable: false`: remove one of the two")
    for item in gold:
        _check_gold(item, known.gold_level)
    given["id"] = known.id or _made_id(known.question, gold)
    given["excluded_spans"] = tuple(
        Span(source=span.source_file, line_start=span.line_start, line_end=span.line_end)
        for span in known.excluded_spans
    )
    question = Question(gold=gold, extra=extra, **given)
    _check_excluded(question)
    return question


def _portable(value: Any, key: str = "") -> Any:
    """Return the value of a key as BranchRank writes it, whichever program wrote it.

    A null is a missing key, a whole number as an id is text, and a source has forward slashes and no ``./``.
    """
    if isinstance(value, dict):
        return {key: _portable(each, key) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_portable(each, key) for each in value]
    if key == "id" and type(value) in (int, float) and value % 1 == 0:
        return str(int(value))
    if key in ("source_file", "source_aliases") and isinstance(value, str) and value:
        return posixpath.normpath(value.replace("\\", "/"))
    return value


def with_needs(
    own: Sequence[GoldItem], needs: Sequence[Sequence[GoldItem]]
) -> tuple[tuple[GoldItem, ...], tuple[tuple[int, ...], ...]]:
    """Return all gold, ``own`` first, and for each group of ``needs`` the indices of its items in it."""
    if not all(needs):
        raise ValueError("each group in `needs` must have at least one gold item")
    gold, places = list(own), [_place(item) for item in own]
    for item in chain.from_iterable(needs):
        if _place(item) not in places:
            gold.append(item)
            places.append(_place(item))
    return tuple(gold), tuple(tuple(places.index(_place(item)) for item in group) for group in needs)


def _place(item: GoldItem) -> tuple[object, ...]:
    """Return what makes two gold items the same: their lines, or their file and quote."""
    return (item.source_file, item.span or item.answer_quote)


def _check_excluded(question: Question) -> None:
    """Raise ``ValueError`` if gold overlaps an excluded span, because hits on that gold would be removed."""
    for item, span in product(question.gold, question.excluded_spans):
        whole = question.gold_level == "file" or not (item.span or item.answer_quote)
        if item.source_file == span.source if whole else item.span is not None and item.span.overlap(span):
            gold = item.source_file if whole or item.span is None else item.span.citation
            raise ValueError(
                f"question {question.id!r}: the gold {gold} overlaps the excluded span {span.citation}, and "
                "hits that overlap excluded spans are removed; change one of the two"
            )


def _made_id(question: str, gold: Sequence[GoldItem]) -> str:
    """Return an id made from the question and the names of the gold files."""
    return "q-" + digest_of([question, sorted(item.source_file for item in gold)])[:12]


def _check_gold(item: GoldItem, level: GoldLevel) -> None:
    start, end = item.answer_line_start, item.answer_line_end
    if (start is None) != (end is None):
        raise ValueError("give both `answer_line_start` and `answer_line_end`, or neither")
    if start is not None and end is not None and not 1 <= start <= end:
        raise ValueError(f"lines {start}..{end} are not valid: 1 <= start <= end is required")
    if item.relevance is not None and item.relevance < 1:
        raise ValueError(f"the relevance of gold must be at least 1, not {item.relevance}")
    if level == "span" and start is None and not item.answer_quote:
        raise ValueError("gold with the level `span` needs line numbers or an `answer_quote`")


def question_line(question: Question) -> dict[str, Any]:
    """Return the JSON object for a question's line, omitting keys that have their default value."""
    own = list(question.gold[: question.listed])
    given = msgspec.structs.asdict(question) | (msgspec.structs.asdict(own[0]) if own else {})
    given["alternates"] = own[1:]
    given["needs"] = [[question.gold[number] for number in group] for group in question.needs]
    given["excluded_spans"] = [
        {"source_file": span.source, "line_start": span.line_start, "line_end": span.line_end}
        for span in question.excluded_spans
    ]
    given["source_aliases"] = list(question.source_aliases)
    line = {name: given.get(name, default) for name, default in _KNOWN.items()}
    written = {name: value for name, value in line.items() if value not in (_KNOWN[name], "", [])}
    return {**msgspec.to_builtins(written), **question.extra}


def write_questions(path: Path, questions: Iterable[Question]) -> str:
    """Write a question file atomically, and return its digest. A link stays a link.

    Files that a killed process left beside it are removed.
    """
    with only_writer_of(path) as write:
        return write(questions)


@contextmanager
def only_writer_of(path: Path) -> Iterator[Callable[[Iterable[Question]], str]]:
    """Wait until nobody else writes a question file, and yield a function that writes it.

    A question file is read and written in this block if the new content depends on the old one. The function
    writes the questions like :func:`write_questions`, which must not be called in the block.
    """
    with only_writer(path.parent, path.name):
        yield lambda questions: write_jsonl(path.resolve(), map(question_line, questions))


def append_question(path: Path, question: Question, digest: str | None = None) -> Question:
    """Append a question to a question file, without changing its existing lines.

    The file is created if it does not exist. A question without an id gets an id made from its content.
    Raises :class:`QuestionError` if the file is invalid or already contains a question with the same id, and
    :class:`ChangedFileError` if ``digest`` is given and is not its digest (:func:`content_digest`).
    """
    if not question.id:
        question = msgspec.structs.replace(question, id=_made_id(question.question, question.gold))
    with only_writer_of(path):
        lines = _lines(path, digest)
        if any(map(str.strip, lines)) and question.id in {each.id for each in load_questions(path)}:
            raise QuestionError(
                f"{path} already has a question {question.id!r}", remedy=f"give another --id, or edit {path}"
            )
        _put(path, lines, len(lines), question)
    return question


def append_new(path: Path, questions: Iterable[Question]) -> list[Question]:
    """Append the questions whose text is not in a question file yet, with ids made from their content.

    Return these questions. The file is created if it does not exist.
    """
    with only_writer_of(path):
        lines = _lines(path, None)
        own = load_questions(path) if any(map(str.strip, lines)) else []
        known = {folded(each.question) for each in own}
        added = [
            msgspec.structs.replace(each, id=_made_id(each.question, each.gold))
            for each in questions
            if folded(each.question) not in known
        ]
        if added:
            _put(path, lines, len(lines), *added)
    return added


class ChangedFileError(QuestionError):
    """Error for a question file whose content is not the content that a change was made from."""


def content_digest(path: Path) -> str:
    """Return the digest of a file's bytes. A missing file has the digest of an empty file."""
    return digest_bytes(path.read_bytes() if path.exists() else b"")


def replace_question(path: Path, question_id: str, digest: str, *questions: Question) -> None:
    """Replace a question's line in a question file by the lines of other questions, or remove it.

    All other lines keep their text, and the file becomes UTF-8 without a byte order mark. Raises
    :class:`ChangedFileError` if ``digest`` is not the file's digest (:func:`content_digest`).
    """
    with only_writer_of(path):
        lines = _lines(path, digest)
        own = [bool(line.strip()) and _question(line).id == question_id for line in lines]
        _put(path, lines, own.index(True), *questions)


def _lines(path: Path, digest: str | None) -> list[str]:
    """Return the lines of a question file, which may be missing, after the check of its digest."""
    if digest not in (None, content_digest(path)):
        raise ChangedFileError(f"{path} has changed since it was read", remedy="try again")
    text = read_text(path, error=QuestionError) if path.exists() else ""
    return text.removesuffix("\n").split("\n") if text else []


def _put(path: Path, lines: list[str], place: int, *questions: Question) -> None:
    """Write the lines of a question file with the questions at a place, which may be the end."""
    lines[place : place + 1] = [msgspec.json.encode(question_line(each)).decode() for each in questions]
    write_text(path.resolve(), "".join(f"{line}\n" for line in lines))


HASHED = "sha256:"


def hashed(question: Question) -> Question:
    """Return the question with its text, titles and quotes replaced with their SHA-256 hashes.

    The result can be published even if the text of the documents can't.
    """
    texts = {
        name: _hash(getattr(question, name)) for name in ("question", "section_title", "required_entity")
    }
    gold = (msgspec.structs.replace(item, answer_quote=_hash(item.answer_quote)) for item in question.gold)
    return msgspec.structs.replace(question, gold=tuple(gold), **texts)


def _hash(text: str | None) -> str | None:
    if not text or text.startswith(HASHED):
        return text
    return HASHED + digest_bytes(text.encode())


def questions_digest(questions: Sequence[Question]) -> str:
    """Return the SHA-256 hash of the questions, which does not depend on their order.

    Questions have the same digest before and after their text is hashed (:func:`hashed`).
    """
    ordered = sorted(questions, key=lambda question: question.id)
    return digest_of([question_line(hashed(question)) for question in ordered])


def sample_questions(questions: Sequence[Question], size: int, seed: int) -> list[Question]:
    """Return a sample of ``size`` questions, sorted by id. With ``size`` 0, return all questions.

    The sample contains the questions with the smallest SHA-256 hashes of the seed and the question's id. The
    sample does not depend on the order of ``questions``. With the same seed, a larger sample contains every
    smaller sample. Raises :class:`QuestionError` if there are fewer than ``size`` questions.
    """
    if size > len(questions):
        raise QuestionError(
            f"a sample of {size} questions is not possible, since there are only {len(questions)}",
            remedy=Remedy("use {}, or 0 for all questions", "--sample-size", str(len(questions))),
        )

    drawn = sorted(questions, key=lambda question: draw(seed, question.id))
    return sorted(drawn[: size or None], key=lambda question: question.id)


def draw(seed: int, name: str) -> str:
    """Return a hash. Sorting names by their hashes puts them in a random order that depends on the seed."""
    return hashlib.sha256(f"{seed}\0{name}".encode()).hexdigest()


def check_wording(questions: Sequence[Question], path: Path) -> None:
    """Raise :class:`QuestionError` if the file contains hashes instead of the questions' text."""
    if any(question.question.startswith(HASHED) for question in questions):
        raise QuestionError(
            f"{path} has digests instead of the questions' text",
            remedy="give the original question file with --questions FILE",
        )


#: The key that marks example questions, which the user should replace.
EXAMPLE = "example"

#: The keys of an imported question: how often it was asked, and the addresses that did not become gold.
COUNT, UNPLACED = "count", "unplaced"

#: The key that lists the gold files of a question that are missing from the corpus.
ABSENT_GOLD = "absent_gold"


def may_be_absent(item: GoldItem, question: Question) -> bool:
    """Return whether the question lists this gold file as missing from the corpus."""
    given = question.extra.get(ABSENT_GOLD)
    return question.gold_level == "file" and isinstance(given, list) and item.source_file in given


def without_absent(
    questions: Sequence[Question], sources: Container[str]
) -> tuple[list[Question], list[str]]:
    """Remove gold files that are not in ``sources``, and return the questions with a note on each change."""
    present, notes = [], []
    for question in questions:
        gold = tuple(
            item for item in question.gold if item.source_file in sources or not may_be_absent(item, question)
        )
        present.append(question.with_gold(gold))
        if count := len(question.gold) - len(gold):
            notes.append(
                f"question {question.id!r}: {count} of {len(question.gold)} gold files are not in "
                f"the corpus (listed in `{ABSENT_GOLD}`)"
            )
    return present, notes


def path_ends(source: str) -> list[str]:
    """Return the path without its first part, without its first two parts, and so on."""
    parts = source.split("/")
    return ["/".join(parts[start:]) for start in range(1, len(parts))]


def absent_file(source: str, sources: Container[str]) -> str:
    """Return a message about a gold file that is not in the corpus. It may name the file that is meant."""
    meant = next((end for end in path_ends(source) if end in sources), "")
    hint = f"; paths are relative to the corpus: did you mean {meant!r}?" if meant else ""
    return f"the corpus has no file {source!r}{hint}"


def check_sources(questions: Sequence[Question], line_counts: dict[str, int]) -> list[str]:
    """Return a message for each gold item whose file or lines do not exist.

    ``line_counts`` maps each source to its number of lines.
    """
    questions, _ = without_absent(questions, line_counts)
    problems = []
    for question in questions:
        for item in question.gold:
            count = line_counts.get(item.source_file)
            if count is None and not set(question.source_aliases) & line_counts.keys():
                problems.append(f"question {question.id!r}: {absent_file(item.source_file, line_counts)}")
            elif count is not None and item.answer_line_end is not None and item.answer_line_end > count:
                problems.append(
                    f"question {question.id!r}: line {item.answer_line_end} is past the end of "
                    f"{item.source_file} ({count} lines)"
                )
    return problems
