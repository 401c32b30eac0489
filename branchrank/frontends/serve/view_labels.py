"""Labels that a person gives on the local page to the questions of the workspace, and new questions.

1. The passages that a run's systems returned for a question are pooled as in ``branchrank questions label``
   (:mod:`branchrank.runs.passage_pools`): once each, in a shuffled order, and without the systems' names. A
   run of other questions has no passages, and its questions are never added to the workspace's question file.
2. The annotator labels a passage, or picks lines. Lines inside a pooled passage narrow its label to these
   lines. Other lines are a passage of their own.
3. Each label and each change to a question is written immediately. The first label of a new question also
   adds the question. The page sends the digest of the question file that it knows, and the digest of the
   document that it shows. If one of the files has changed, nothing is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

from branchrank.core.errors import QuestionError, RunError, UsageError
from branchrank.core.io.printable import safe
from branchrank.core.records import SEED, GoldItem, LineNumber, Question, Record, Span
from branchrank.documents.document import Document, breadcrumbs
from branchrank.documents.loading import read_documents
from branchrank.frontends.serve.view_documents import Documents, Place, Text, WorkspaceQuestionFile, place_of
from branchrank.frontends.serve.view_questions import QuestionLists, RunQuestions
from branchrank.questions.anchoring import new_question, span_digest
from branchrank.questions.labels import Choice, Label, labels_of, made_gold, overlapping, with_label
from branchrank.questions.links import section_at
from branchrank.questions.question_files import (
    ChangedFileError,
    append_question,
    content_digest,
    draw,
    replace_question,
)
from branchrank.runs.passage_pools import other_documents, pooled, to_label

#: The hits of each answer up to this rank are pooled.
DEPTH = 5
#: The number of lines shown before and after a passage.
AROUND = 3
#: The number of gold items whose lines are shown.
SHOWN_GOLD = 5


class GivenLabel(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A label that the page sends.

    ``question`` is the id of the question, or "" for a new question with the text ``text``. ``run`` is "" if
    the page shows no run's passages. ``first`` and ``last`` are the lines of the passage, and ``answer`` the
    picked lines, if only these answer the question. ``version`` and ``document`` are the digests of the
    question file and of the document.
    """

    run: Text
    question: Text
    text: Text = ""
    source: Text
    first: LineNumber
    last: LineNumber
    label: Choice
    answer: tuple[LineNumber, LineNumber] | None = None
    version: Text
    document: Text


class ShownPassage(Record, frozen=True, kw_only=True):
    """A passage to label. ``start`` is the number of the first line in ``lines``.

    ``label`` is the annotator's label, and ``answer`` are the lines that it added to the gold. If a label
    ``yes`` added none, ``overlaps`` is the gold that the passage overlaps, each with the annotator's labeled
    passage that made it gold, or ``None``.
    """

    source: str
    first: int
    last: int
    heading: str
    document: str
    start: int
    lines: tuple[str, ...]
    label: str = ""
    answer: tuple[int, int] | None = None
    overlaps: tuple[tuple[Place, Place | None], ...] = ()


class LabelPage(Record, frozen=True, kw_only=True):
    """One question with its gold and its passages, and the place of the question among the others.

    ``run`` is the run with the passages, or "" for the reason in ``note``. Without a question in the file,
    ``id`` is "". ``gold_lines`` contains the first line and the lines around each of the first gold items.
    ``labels`` maps each annotator to the number of their labels of the question. ``with_gold`` and
    ``labeled`` count the questions that have gold and the annotator's labels. ``waiting`` is the next
    question that has a passage without a label, or "" if there is none. If no later question has such a
    passage, ``earlier`` is the number of earlier questions that have one.
    """

    file: str
    version: str
    annotator: str
    run: str
    note: str
    id: str
    question: str
    answerable: bool
    gold: tuple[Place, ...]
    gold_lines: tuple[tuple[int, tuple[str, ...]], ...]
    labels: dict[str, int]
    passages: tuple[ShownPassage, ...]
    number: int
    total: int
    with_gold: int
    labeled: int
    previous: str
    next: str
    waiting: str
    earlier: int


class LabelDesk:
    """The labels of one annotator in the question file of a workspace."""

    def __init__(self, lists: QuestionLists, documents: Documents, annotator: str) -> None:
        self._lists, self._documents, self._annotator = lists, documents, annotator
        self.file = WorkspaceQuestionFile(documents)
        #: The pooled passages of each question. The labels do not change them.
        self._pools: WeakKeyDictionary[RunQuestions, dict[str, list[Span]]] = WeakKeyDictionary()
        #: The lines of a document that were read, the document, and the headings above each section.
        self._parsed: dict[str, tuple[list[str], Document, tuple[str, ...]]] = {}

    def newest(self) -> str:
        """Return the key of the newest run that asked questions of the workspace, or ""."""
        return "" if self._documents.root is None else self._lists.newest(self.file.known())

    def page(self, key: str, question_id: str = "") -> LabelPage:
        """Return a question, by default the first that has a passage without a label.

        Raises :class:`UsageError` if the page has no workspace or the question is unknown, and
        :class:`QuestionError` if the question file is invalid.
        """
        version, known = content_digest(self.file.path), self.file.known()
        try:
            run, note = self._run(key, known), ""
        except RunError as error:
            run, note = None, safe(str(error))
        ids = list(known)
        chosen = question_id or next(self._waiting(run, known, ids), "") or next(iter(ids), "")
        question = known.get(chosen) if chosen else Question(id="", question="", answerable=False)
        if question is None:
            raise UsageError(f"{self.file.path} has no question {chosen!r}")
        if run is not None and not run.asks(question):
            note = f"the run {key} did not ask this question"
        place = ids.index(chosen) if chosen else -1
        later = next(self._waiting(run, known, ids[place + 1 :]), "")
        earlier = [] if later else [*self._waiting(run, known, ids[: max(place, 0)])]
        return LabelPage(
            file=safe(str(self.file.path)),
            version=version,
            annotator=safe(self._annotator),
            run="" if run is None else key,
            note=note,
            id=chosen,
            question=safe(question.question),
            answerable=question.answerable,
            gold=tuple(map(place_of, question.gold)),
            gold_lines=tuple(map(self._lines_of, question.gold[:SHOWN_GOLD])),
            labels=Counter(safe(each.annotator) for each in labels_of(question)),
            passages=tuple(self._shown(question, span) for span in self._pool(run, question)),
            number=place + 1,
            total=len(ids),
            with_gold=sum(bool(each.gold) for each in known.values()),
            labeled=sum(any(map(self._is_own, labels_of(each))) for each in known.values()),
            previous=ids[place - 1] if place > 0 else "",
            next=ids[place + 1] if place + 1 < len(ids) else "",
            waiting=later or next(iter(earlier), ""),
            earlier=len(earlier),
        )

    def add(self, given: GivenLabel) -> LabelPage:
        """Write a label, with its question if this is new, and return the question's new state.

        Raises the errors of :meth:`page`, :class:`RunError` for a run without passages,
        :class:`QuestionError` for a new question that can't be added, and :class:`ChangedFileError` if a file
        has changed.
        """
        known = self.file.known()
        if given.run:
            self._run(given.run, known)
        question = known.get(given.question) if given.question else self._new(given, known.values())
        if question is None:
            raise UsageError(f"{self.file.path} has no question {given.question!r}")
        shown = self._documents.shown(given.source)
        if shown.digest != given.document:
            raise ChangedFileError(f"{given.source} has changed since the page read it")
        first, last = given.answer or (given.first, given.last)
        answer = Span(source=given.source, line_start=first, line_end=last)
        span = Span(source=given.source, line_start=given.first, line_end=given.last)
        if answer.overlap(span) != answer.lines:
            span = answer
        if not 1 <= first <= last or not 1 <= given.first <= given.last <= len(shown.lines) >= last:
            raise UsageError(f"{given.source} does not have the lines {first}-{last}")
        labeled = with_label(
            question, span, given.label, self._documents, annotator=self._annotator, answer=answer
        )
        if given.question:
            replace_question(self.file.path, labeled.id, given.version, labeled)
        else:
            labeled = new_question(labeled, self._documents)
            labeled = append_question(self.file.path, labeled, given.version)
        return self.page(given.run, labeled.id)

    def _new(self, given: GivenLabel, known: Iterable[Question]) -> Question:
        """Return the question to add, without its gold."""
        if given.label != "yes":
            raise QuestionError(
                "a new question needs the lines that answer it", remedy="pick them, and press Yes"
            )
        return Question(id="", question=self.file.new_text(given.text, known), answerable=False)

    def _run(self, key: str, known: dict[str, Question]) -> RunQuestions:
        """Return a run. Raises :class:`RunError` if it has no passages for these questions."""
        root = self._documents.folder.corpus_root
        if not key:
            message = "no run is chosen"
        elif self._documents.root_of((run := self._lists.of(key)).record) is None:
            message = other_documents(run.record, root, key)
        elif not any(map(run.asks, known.values())):
            asked, own = run.record.questions_file, self.file.path
            message = f"the questions of the run {key} are from {asked}, not from {own}"
        else:
            return run
        newest = self._lists.newest(known)
        remedy = f"choose the run {newest}" if newest else "branchrank run experiment.toml"
        raise RunError(message, remedy=remedy)

    def _is_own(self, label: Label) -> bool:
        return label.annotator == self._annotator

    def _pool(self, run: RunQuestions | None, question: Question) -> list[Span]:
        """Return the passages to label in shuffled order, and then the annotator's other labeled lines."""
        found: list[Span] = []
        if run is not None and run.asks(question):
            pools = self._pools.setdefault(run, {})
            if question.id not in pools:
                rows = run.run_of(question.id).rows
                nodes = pooled(rows, DEPTH, self._documents).get(question.id, {})
                pools[question.id] = sorted(
                    nodes, key=lambda span: draw(SEED, f"{span.source}:{span.line_start}")
                )
            found = pools[question.id]
        asked = to_label(question, found, self._annotator, self._documents)
        own = [label.span for label in labels_of(question) if self._is_own(label) and label.span not in asked]
        return [*asked, *(span for span in own if self._current(question, span) is not None)]

    def _current(self, question: Question, span: Span) -> Label | None:
        """Return the annotator's label for the current text of a passage."""
        found = next((each for each in labels_of(question) if self._is_own(each) and each.span == span), None)
        if found is None or span.source not in self._documents:
            return None
        return found if span_digest(span, self._documents) == found.answer_digest else None

    def _waiting(
        self, run: RunQuestions | None, known: dict[str, Question], ids: Sequence[str]
    ) -> Iterator[str]:
        """Yield the questions that have a passage without a label."""
        for key in ids:
            if any(self._current(known[key], span) is None for span in self._pool(run, known[key])):
                yield key

    def _heading(self, span: Span) -> str:
        """Return the headings above a passage as its document has them."""
        lines, found = self._documents[span.source], self._parsed.get(span.source)
        if found is None or found[0] is not lines:
            [document] = read_documents(self._documents.folder.corpus_root, [span.source], [])
            found = self._parsed[span.source] = (lines, document, breadcrumbs(document))
        return found[2][section_at(found[1], span.line_start)]

    def _lines_of(self, item: GoldItem) -> tuple[int, tuple[str, ...]]:
        """Return the lines around a gold item, if the document has them, after the first one's number."""
        if item.span is None or item.source_file not in self._documents:
            return 1, ()
        start = max(1, item.span.line_start - AROUND)
        return start, self._documents.shown(item.source_file).lines[start - 1 : item.span.line_end + AROUND]

    def _shown(self, question: Question, span: Span) -> ShownPassage:
        shown = self._documents.shown(span.source)
        label = self._current(question, span)
        start = max(1, span.line_start - AROUND)
        return ShownPassage(
            source=shown.source,
            first=span.line_start,
            last=span.line_end,
            heading=safe(self._heading(span)),
            document=shown.digest,
            start=start,
            lines=shown.lines[start - 1 : span.line_end + AROUND],
            label=label.label if label else "",
            answer=label.gold if label else None,
            overlaps=tuple(self._overlaps(question, label)) if label else (),
        )

    def _overlaps(self, question: Question, label: Label) -> Iterator[tuple[Place, Place | None]]:
        """Yield the gold that kept a label ``yes`` from adding gold, with the passage whose label made it."""
        own = [each for each in labels_of(question) if self._is_own(each)]
        if label.label == "yes" and not label.gold:
            for item in overlapping(label.span, question, question.gold):
                made = (GoldItem.of(each.span) for each in own if made_gold(each, item, question))
                yield place_of(item), next(map(place_of, made), None)
