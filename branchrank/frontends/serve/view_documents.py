"""The documents and the question file of the local page's workspace.

1. Only documents that the workspace would index are opened, whatever a client or a run names.
2. A run's line numbers are valid only if the documents have not changed since the run, so that their digest
   is that of the run. The digest is computed once, and again after a document has changed.
3. A change to a question replaces or removes one line of the question file. The page sends the digest of the
   file that it knows, and if somebody else has written since, nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Annotated, Literal

import msgspec

from branchrank.core.errors import BranchRankError, CorpusError, QuestionError, UsageError
from branchrank.core.io.files import digest_of
from branchrank.core.io.printable import safe
from branchrank.core.records import GoldItem, Question, Record
from branchrank.documents.loading import digest_now, discover, read_documents
from branchrank.documents.reading import document_lines
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.questions.labels import as_unanswerable
from branchrank.questions.question_files import load_questions, replace_question
from branchrank.runs.directory import RunRecord

#: The number of questions that the page shows at once.
PAGE = 20
#: The number of places that are found for a name or a heading.
MOST_PLACES = 20


class ShownDocument(Record, frozen=True, kw_only=True):
    """The lines of a document as the page shows them, with a digest of the lines."""

    source: str
    digest: str
    lines: tuple[str, ...]


class Documents(Mapping[str, list[str]]):
    """A mapping from each document of a workspace to its lines, which are read when they are needed.

    Without a usable workspace the mapping is empty, and ``problem`` is the reason.
    """

    def __init__(self, folder: WorkspaceFolder) -> None:
        self.folder = folder
        self._lock = RLock()
        self._sources: frozenset[str] = frozenset()
        self._digests: dict[tuple[str, ...], str] = {}
        self._checked_ns = 0
        self._lines: dict[str, tuple[int, list[str]]] = {}
        self.problem = ""
        self._root: Path | None = None

    @property
    def root(self) -> Path | None:
        """The folder of the documents. A workspace that was not usable is read again."""
        if self._root is None:
            try:
                self.folder = WorkspaceFolder.open(self.folder.data_dir)
                self._root = self.folder.corpus_root
            except BranchRankError as error:
                self.problem = error.message
        return self._root

    def root_of(self, record: RunRecord) -> Path | None:
        """Return the folder of the documents if they are those of the run, and ``None`` otherwise."""
        if self.root is None:
            return None
        with self._lock:
            if record.corpus_exclude not in self._digests:
                self._checked_ns = time.time_ns()
                self._digests[record.corpus_exclude] = digest_now(self.root, record.corpus_exclude)
            return self.root if self._digests[record.corpus_exclude] == record.corpus_digest else None

    def __getitem__(self, source: str) -> list[str]:
        """Return the lines of a document. Raises ``KeyError`` if the workspace has no such document."""
        with self._lock:
            if self.root is None:
                raise KeyError(source)
            if source not in self._sources:
                self._sources = frozenset(
                    each.source for each in discover(self.root, self.folder.exclude).files
                )
            if source not in self._sources:
                raise KeyError(source)
            try:
                changed_ns = (self.root / source).stat().st_mtime_ns
                if changed_ns >= self._checked_ns:
                    self._digests.clear()
                if self._lines.get(source, (0, []))[0] != changed_ns:
                    self._lines[source] = (changed_ns, document_lines(self.root, source))
            except OSError:
                raise KeyError(source) from None
            return self._lines[source][1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def shown(self, source: str) -> ShownDocument:
        """Return a document for the page. Raises :class:`CorpusError` if there is no such document."""
        with self._lock:
            try:
                lines = self[source]
            except KeyError:
                raise CorpusError(f"the workspace has no document {source!r}") from None
            return ShownDocument(source=safe(source), digest=digest_of(lines), lines=tuple(map(safe, lines)))

    @property
    def sources(self) -> list[str]:
        """The names of all documents."""
        if self.root is None:
            return []
        return [safe(file.source) for file in discover(self.root, self.folder.exclude).files]

    def places(self, words: str) -> list[tuple[str, int, str]]:
        """Find documents by name and sections by heading, with the first line and the heading of each.

        A document with exactly this name is the only result.
        """
        sources, wanted = self.sources, words.casefold().split()
        if words in sources:
            return [(words, 1, "")]

        def matches(text: str) -> bool:
            return all(word in text.casefold() for word in wanted)

        found = [(source, 1, "") for source in sources if matches(source)]
        for source in sources:
            if len(found) >= MOST_PLACES:
                break
            if self.root and matches("\n".join(self.get(source, ()))):  # most documents need not be parsed
                for document in read_documents(self.root, [source], []):
                    sections = (each for each in document.sections if matches(each.title))
                    found += [(source, each.line_start, safe(each.title)) for each in sections]
        return found[:MOST_PLACES]


Text = Annotated[str, msgspec.Meta(max_length=10_000)]
#: A document with the first and the last line, or without lines for a whole document.
Place = tuple[str, int | None, int | None]


class GivenEdit(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change to a question that the page sends. ``text`` is the new text, if this is the change."""

    question: Text
    version: Text
    change: Literal["text", "unanswerable", "delete"]
    text: Text = ""


def place_of(item: GoldItem) -> Place:
    """Return a gold item as the page shows it."""
    return safe(item.source_file), item.answer_line_start, item.answer_line_end


class WorkspaceQuestionFile:
    """The questions of a workspace, which are read from their file for each request."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._documents.folder.questions_path

    def known(self) -> dict[str, Question]:
        """Return the questions of the workspace by id."""
        if self._documents.root is None:
            raise UsageError(self._documents.problem, remedy="branchrank view --data-dir WORKSPACE")
        there = self.path.exists() and self.path.read_bytes().strip()
        return {each.id: each for each in load_questions(self.path)} if there else {}

    def listed(self, words: str, page: int) -> dict[str, object]:
        """Return one page of the questions whose id or text contains the words."""
        wanted = words.casefold().split()
        found = [
            each
            for each in self.known().values()
            if all(word in f"{each.id} {each.question}".casefold() for word in wanted)
        ]
        facts = paged(found, page, lambda each: (list(map(place_of, each.gold)), each.answerable))
        return {"file": safe(str(self.path)), **facts}

    def edit(self, given: GivenEdit) -> object:
        """Write a change to a question.

        Raises :class:`UsageError` for an unknown question, :class:`QuestionError` for an invalid text, and
        :class:`ChangedFileError` if the file has changed.
        """
        known = self.known()
        question = known.get(given.question)
        if question is None:
            raise UsageError(f"{self.path} has no question {given.question!r}")
        if given.change == "delete":
            replace_question(self.path, question.id, given.version)
        elif given.change == "unanswerable":
            replace_question(self.path, question.id, given.version, as_unanswerable(question))
        else:
            others = [each for each in known.values() if each is not question]
            text = self.new_text(given.text, others)
            changed = msgspec.structs.replace(question, question=text)
            replace_question(self.path, question.id, given.version, changed)
        return {"file": safe(str(self.path))}

    def new_text(self, text: str, others: Iterable[Question]) -> str:
        """Return the text of a question. Raises :class:`QuestionError` if it is empty or that of another."""
        text = text.strip()
        if not text:
            raise QuestionError("the question has no text", remedy="write the question")
        if same := next((each.id for each in others if each.question.strip() == text), ""):
            raise QuestionError(
                f"{self.path} has this question already, as {same!r}", remedy="label that one"
            )
        return text


def paged(
    found: Sequence[Question], page: int, facts: Callable[[Question], Sequence[object]]
) -> dict[str, object]:
    """Return one page of questions, each with its id, its text and its facts, and the number of pages."""
    last = max(0, -(-len(found) // PAGE) - 1)
    page = min(page, last)
    shown = found[page * PAGE : (page + 1) * PAGE]
    questions = [(safe(each.id), safe(each.question), facts(each)) for each in shown]
    return {"found": len(found), "page": page, "pages": last + 1, "questions": questions}
