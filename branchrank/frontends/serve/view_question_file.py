"""The question file of the local page's workspace: the list of its questions, and changes to one of them.

A change replaces or removes one line of the file. The page sends the digest of the file that it knows, and if
somebody else has written since, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from branchrank.core.errors import QuestionError, UsageError
from branchrank.core.io.printable import safe
from branchrank.core.records import GoldItem, Question, Record
from branchrank.frontends.serve.view_documents import Documents
from branchrank.frontends.serve.view_questions import paged
from branchrank.questions.labels import as_unanswerable
from branchrank.questions.question_files import load_questions, remove_question, replace_question

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
            remove_question(self.path, question.id, given.version)
        elif given.change == "unanswerable":
            replace_question(self.path, as_unanswerable(question), given.version)
        else:
            others = [each for each in known.values() if each is not question]
            text = self.new_text(given.text, others)
            replace_question(self.path, msgspec.structs.replace(question, question=text), given.version)
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
