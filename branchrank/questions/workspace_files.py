"""Methods that add, label, check, re-anchor, mine, split and generate the questions of a workspace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from branchrank.errors import InputError
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.io.progress import Progress, no_progress
from branchrank.llm.ledger import Spent
from branchrank.records import SEED, Node, Question, Record, Span
from branchrank.settings import LLMSettings

if TYPE_CHECKING:
    from branchrank.questions.anchoring import AnchorMove, AnchorProblem
    from branchrank.questions.checks import QuestionCheck
    from branchrank.questions.generation import (
        GeneratedQuestions,
        GenerationEstimate,
        GenerationOptions,
    )
    from branchrank.questions.labels import Proposals
    from branchrank.questions.mining import Mined

AnyPath = str | PathLike[str]


class CheckedFile(Record, frozen=True, kw_only=True):
    """The result of checking a question file against the corpus.

    ``notes`` contains messages about documents that are not in the corpus.
    """

    path: Path
    notes: tuple[str, ...]
    result: QuestionCheck


class MovedGold(Record, frozen=True, kw_only=True):
    """The result of re-anchoring the gold in a question file.

    ``moved`` lists the gold items whose line numbers were updated. ``problems`` lists the gold items that
    were not found. ``path`` is the question file with the new line numbers.
    """

    path: Path
    moved: tuple[AnchorMove, ...]
    problems: tuple[AnchorProblem, ...]


class SplitFile(Record, frozen=True, kw_only=True):
    """One part of a split question file.

    ``path`` is the part's question file, and ``questions`` is the number of questions in the part.
    ``documents`` is the number of documents that contain the gold of the part's questions.
    """

    path: Path
    questions: int
    documents: int


class SplitFiles(Record, frozen=True, kw_only=True):
    """The two parts of a split question file, one for tuning and one for testing.

    ``share`` is the fraction of the questions that are in the tuning part. Questions about the same document
    are in the same part. ``largest_group`` is the number of questions in the largest group of questions with
    shared documents.
    """

    parts: tuple[SplitFile, ...]
    share: float
    largest_group: int


class AddedQuestion(Record, frozen=True, kw_only=True):
    """A question that was added to a file, with the warnings of :meth:`QuestionFiles.check`.

    ``gold_lines`` contains the lines of each gold item.
    """

    path: Path
    question: Question
    warnings: tuple[str, ...]
    gold_lines: tuple[tuple[str, ...], ...]


class QuestionFiles:
    """The questions of one workspace. The ``path`` argument of a method selects another question file."""

    def __init__(self, folder: WorkspaceFolder) -> None:
        self._folder = folder

    @property
    def path(self) -> Path:
        """The workspace's question file."""
        return self._folder.questions_path

    def load(self, path: AnyPath | None = None) -> list[Question]:
        """Read the questions in a file.

        Raises :class:`~branchrank.errors.QuestionError` with the line number if a line is invalid.
        """
        from branchrank.questions.question_files import load_questions

        return load_questions(self._path(path))

    def write(self, path: AnyPath, questions: Sequence[Question]) -> None:
        """Write questions to a file, with one JSON object per line."""
        from branchrank.questions.question_files import write_questions

        write_questions(Path(path), questions)

    def add(
        self,
        question: str,
        gold: Sequence[Span],
        path: AnyPath | None = None,
        *,
        id: str = "",  # noqa: A002 - the name of the field
        quote: str = "",
        kind: str = "",
        difficulty: str = "",
    ) -> AddedQuestion:
        """Add a question with the digest of its gold lines to a question file. A missing file is created.

        ``gold`` contains the spans that answer the question. The text of the first span must contain
        ``quote``. If ``gold`` is empty, the question is stored as unanswerable. If ``id`` is empty, an id is
        computed from the question and the files. Raises :class:`~branchrank.errors.QuestionError` for gold
        lines that do not exist, a quote that is not in the gold lines, and an id that is already in the file.
        """
        from branchrank.corpus.loading import load_corpus
        from branchrank.questions.anchoring import corpus_lines, new_question, source_below
        from branchrank.questions.checks import check_questions
        from branchrank.questions.question_files import append_question

        root, exclude = self._folder.corpus_root, self._folder.exclude
        lines = corpus_lines(root, exclude)
        gold = [replace(span, source=source_below(root, span.source)) for span in gold]
        made = new_question(question, gold, lines, id=id, quote=quote, kind=kind, difficulty=difficulty)
        target = self._folder.data_dir / self._folder.config.questions if path is None else Path(path)
        added = append_question(target, made)
        checked = check_questions([added], load_corpus(root, exclude).documents, lines)
        warnings = tuple(finding.message for finding in checked.findings)
        texts = tuple(tuple(lines[span.source][span.line_start - 1 : span.line_end]) for span in gold)
        return AddedQuestion(path=target, question=added, warnings=warnings, gold_lines=texts)

    def check(self, path: AnyPath | None = None) -> CheckedFile:
        """Check the gold of a question file against the corpus, and find leakage and duplicates."""
        from branchrank.corpus.loading import load_corpus
        from branchrank.questions.anchoring import corpus_lines
        from branchrank.questions.checks import check_questions
        from branchrank.questions.question_files import without_absent

        root, exclude = self._folder.corpus_root, self._folder.exclude
        loaded = self.load(path)
        lines = corpus_lines(root, exclude)
        present, notes = without_absent(loaded, lines)
        result = check_questions(present, load_corpus(root, exclude).documents, lines)
        return CheckedFile(path=self._path(path), notes=tuple(notes), result=result)

    @contextmanager
    def label_proposals(self, *, base_url: str, model: str = "") -> Iterator[Proposals]:
        """Yield a function that asks an LLM to propose a label for a passage.

        Raises :class:`~branchrank.errors.UsageError` if the URL is missing or invalid, and
        :class:`~branchrank.errors.LLMError` if the endpoint does not answer or refuses the key.
        """
        from branchrank.llm.session import open_gateway
        from branchrank.questions.labels import Proposals

        folder = self._folder
        with open_gateway(folder.settings, folder.decisions_path, base_url, model, folder.notify) as (llm, _):
            yield Proposals(llm)

    def reanchor(self, path: AnyPath | None = None, output: AnyPath | None = None) -> MovedGold:
        """Update the line numbers of gold whose lines or quotes have moved in the corpus.

        The updated questions are written to ``output`` (by default the input file).
        """
        from branchrank.questions.anchoring import corpus_lines, reanchor
        from branchrank.questions.question_files import may_be_absent

        loaded = self.load(path)
        result = reanchor(loaded, corpus_lines(self._folder.corpus_root, self._folder.exclude))
        asked = {question.id: question for question in loaded}
        problems = tuple(
            problem
            for problem in result.problems
            if not may_be_absent(asked[problem.question_id].gold[problem.item], asked[problem.question_id])
        )
        target = Path(output) if output is not None else self._path(path)
        self.write(target, result.questions)
        return MovedGold(path=target, moved=tuple(result.moved), problems=problems)

    def mine(self, output: AnyPath, corpus: AnyPath | None = None) -> Mined:
        """Make questions from the cross-references in the corpus, and write the questions to ``output``.

        ``corpus`` is the folder or name of a corpus (by default the workspace's corpus). If no
        cross-reference can be turned into a question, no file is written.
        """
        from branchrank.corpus.loading import load_corpus
        from branchrank.corpus.named import locate_corpus
        from branchrank.questions.anchoring import corpus_lines, reanchor
        from branchrank.questions.mining import mine_questions

        if corpus is None:
            root, exclude = self._folder.corpus_root, self._folder.exclude
        else:
            root, exclude = locate_corpus(Path(corpus) if not isinstance(corpus, str) else corpus), ()
        mined = mine_questions(load_corpus(root, exclude).documents)
        if mined.questions:
            self.write(output, reanchor(mined.questions, corpus_lines(root, exclude)).questions)
        return mined

    def split(self, path: AnyPath | None = None, *, share: float = 0.3, seed: int = SEED) -> SplitFiles:
        """Split a question file by document into ``NAME-tuning.jsonl`` and ``NAME-test.jsonl`` in its folder.

        ``share`` (above 0, below 1) is the fraction of the questions to put in the tuning part. Questions
        about the same document are always put in the same part, so the actual fraction can differ from
        ``share``.
        """
        from branchrank.questions.splits import largest_group, sources_of, split_questions

        source = self._path(path)
        loaded = self.load(path)
        halves = split_questions(loaded, share, seed)
        parts = []
        for name, half in zip(halves._fields, halves, strict=True):
            output = source.with_name(f"{source.stem}-{name}.jsonl")
            self.write(output, half)
            documents = len(frozenset[str]().union(*map(sources_of, half)))
            parts.append(SplitFile(path=output, questions=len(half), documents=documents))
        return SplitFiles(
            parts=tuple(parts),
            share=len(halves.tuning) / len(loaded),
            largest_group=largest_group(loaded),
        )

    def generate(
        self,
        output: AnyPath,
        options: GenerationOptions | None = None,
        *,
        base_url: str,
        model: str = "",
        progress: Progress = no_progress,
    ) -> tuple[GeneratedQuestions, Spent]:
        """Generate questions with an LLM, locate the gold in the corpus, and write the file ``output``.

        Finished LLM calls are cached. If several consecutive LLM calls fail, the generation stops, and the
        questions accepted so far are written. The result's attribute ``stopped`` contains the reason why the
        generation stopped. Raises :class:`~branchrank.errors.InputError` if no section is long enough.
        """
        from branchrank.llm.session import open_work
        from branchrank.questions.generation import GenerationOptions, generate_questions

        nodes, lines = self._sections()
        with open_work(self._folder, base_url, model) as work:
            result = generate_questions(nodes, lines, work, options or GenerationOptions(), progress=progress)
            spent = work.spent
        self._check_asked(result.sections_asked)
        if result.questions:
            self.write(output, result.questions)
        return result, spent

    def estimate_generation(self, options: GenerationOptions | None = None) -> GenerationEstimate:
        """Estimate the minimum and maximum cost of :meth:`generate`, without contacting a server.

        Raises :class:`~branchrank.errors.InputError` if no section is long enough.
        """
        from branchrank.questions.generation import GenerationOptions, estimate_generation

        max_tokens = self._folder.settings.part(LLMSettings).completion_tokens
        estimate = estimate_generation(*self._sections(), options or GenerationOptions(), max_tokens)
        self._check_asked(estimate.sections)
        return estimate

    def _sections(self) -> tuple[list[Node], dict[str, list[str]]]:
        """Return the nodes in the corpus's tree, and the lines of each document."""
        from branchrank.corpus.loading import load_corpus
        from branchrank.questions.anchoring import corpus_lines
        from branchrank.tree.build import build_nodes

        root, exclude = self._folder.corpus_root, self._folder.exclude
        nodes, _ = build_nodes(load_corpus(root, exclude).documents, self._folder.corpus_name)
        return nodes, corpus_lines(root, exclude)

    def _check_asked(self, sections: int) -> None:
        from branchrank.questions.generation import MIN_SECTION_WORDS

        if not sections:
            raise InputError(
                f"no section of {self._folder.corpus_root} has {MIN_SECTION_WORDS} words",
                remedy="choose a corpus with more text",
            )

    def _path(self, path: AnyPath | None) -> Path:
        return self.path if path is None else Path(path)
