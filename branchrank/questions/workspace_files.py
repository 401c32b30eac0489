"""Methods that add, import, label, check, mine, split and generate the questions of a workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from branchrank.core.io.progress import Progress, no_progress
from branchrank.core.records import SEED, Node, Question, Record
from branchrank.core.settings import LLMSettings
from branchrank.index.workspace_folder import AnyPath, WorkspaceFolder
from branchrank.search.llm.ledger import Spent

if TYPE_CHECKING:
    from branchrank.documents.document import Document
    from branchrank.questions.anchoring import Reanchoring
    from branchrank.questions.generation import GeneratedQuestions, GenerationOptions
    from branchrank.questions.importing import Imported
    from branchrank.questions.labels import Proposals
    from branchrank.questions.mining import Mined
    from branchrank.questions.question_checks import QuestionCheck
    from branchrank.search.systems.llm_choice import CallBounds


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

    def add(self, question: Question, path: AnyPath | None = None) -> AddedQuestion:
        """Add a question with the digest of its gold lines to a question file. A missing file is created.

        A question without an id gets an id made from its text and its files. Raises
        :class:`~branchrank.core.errors.QuestionError` for gold lines that do not exist, a quote that is not
        in the gold lines, and an id that is already in the file.
        """
        from branchrank.questions.anchoring import new_question, source_below, span_lines
        from branchrank.questions.question_checks import check_questions
        from branchrank.questions.question_files import append_question

        documents, lines = self._corpus()
        root = self._folder.corpus_root
        gold = tuple(
            replace(item, source_file=source_below(root, item.source_file)) for item in question.gold
        )
        target = self._target(path)
        added = append_question(target, new_question(replace(question, gold=gold), lines))
        return AddedQuestion(
            path=target,
            question=added,
            warnings=tuple(each.message for each in check_questions([added], documents, lines).findings),
            gold_lines=tuple(tuple(span_lines(item.span, lines)) for item in added.gold if item.span),
        )

    def check(self, path: AnyPath | None = None) -> QuestionCheck:
        """Check the gold of a question file against the corpus, and find leakage and duplicates."""
        from branchrank.questions.question_checks import check_questions
        from branchrank.questions.question_files import load_questions

        return check_questions(load_questions(self._path(path)), *self._corpus())

    @contextmanager
    def label_proposals(self, *, base_url: str, model: str = "") -> Iterator[Proposals]:
        """Yield a function that asks an LLM to propose a label for a passage.

        Raises :class:`~branchrank.core.errors.UsageError` if the URL is missing or invalid, and
        :class:`~branchrank.core.errors.LLMError` if the endpoint does not answer or refuses the key.
        """
        from branchrank.questions.labels import Proposals
        from branchrank.search.llm.session import open_gateway

        folder = self._folder
        with open_gateway(folder.settings, folder.decisions_path, base_url, model, folder.notify) as (llm, _):
            yield Proposals(llm)

    def reanchor(self, path: AnyPath | None = None, output: AnyPath | None = None) -> Reanchoring:
        """Update the line numbers of gold and labels whose lines or quotes have moved in the corpus.

        The updated questions are written to ``output`` (by default the input file).
        """
        from branchrank.documents.loading import corpus_lines
        from branchrank.questions.labels import reanchor_with_labels
        from branchrank.questions.question_files import load_questions, only_writer_of

        lines = corpus_lines(self._folder.corpus_root, self._folder.exclude)
        with only_writer_of(self._path(path if output is None else output)) as write:
            result = reanchor_with_labels(load_questions(self._path(path)), lines)
            write(result.questions)
        return result

    def mine(self, output: AnyPath, corpus: AnyPath | None = None) -> Mined:
        """Make questions from the cross-references in the corpus, and write the questions to ``output``.

        ``corpus`` is the folder or name of a corpus (by default the workspace's corpus). If no
        cross-reference can be turned into a question, no file is written.
        """
        from branchrank.documents.named import locate_corpus
        from branchrank.questions.anchoring import reanchor
        from branchrank.questions.mining import mine_questions
        from branchrank.questions.question_files import write_questions

        root = None if corpus is None else locate_corpus(corpus if isinstance(corpus, str) else Path(corpus))
        documents, lines = self._corpus(root)
        mined = mine_questions(documents)
        if mined.questions:
            write_questions(Path(output), reanchor(mined.questions, lines).questions)
        return mined

    def import_asked(self, asked: AnyPath, output: AnyPath | None = None) -> Imported:
        """Make questions from a search log or exported tickets, and add them to a question file.

        ``asked`` is a CSV or JSON Lines file (:mod:`branchrank.questions.importing`). Clicked pages become
        gold, and questions without one wait for labels. Questions whose text is already in ``output`` (by
        default the workspace's question file) are not added. Raises
        :class:`~branchrank.core.errors.QuestionError` for invalid rows, without any change.
        """
        from branchrank.questions.anchoring import reanchor
        from branchrank.questions.importing import imported, read_asked
        from branchrank.questions.question_files import append_new

        rows, path = read_asked(Path(asked)), self._target(output)
        documents, lines = self._corpus()
        made = imported(rows, documents)
        added = append_new(path, reanchor(made.questions, lines).questions)
        return replace(made, path=path, questions=tuple(added))

    def split(
        self, path: AnyPath | None = None, *, share: float = 0.3, seed: int = SEED
    ) -> dict[Path, list[Question]]:
        """Split a question file by document into ``NAME-tuning.jsonl`` and ``NAME-test.jsonl`` in its folder.

        ``share`` (above 0, below 1) is the fraction of the questions to put in the tuning part. Questions
        whose first gold item is in the same document are always put in the same part, so the actual fraction
        can differ from ``share``. Returns the questions in each of the two files.
        """
        from branchrank.questions.question_checks import split_questions
        from branchrank.questions.question_files import load_questions, write_questions

        source = self._path(path)
        halves = split_questions(load_questions(source), share, seed)
        parts = {
            source.with_name(f"{source.stem}-{name}.jsonl"): half for name, half in halves._asdict().items()
        }
        for output, half in parts.items():
            write_questions(output, half)
        return parts

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
        generation stopped. Raises :class:`~branchrank.core.errors.InputError` if no section is long enough.
        """
        from branchrank.questions.generation import GenerationOptions, generate_questions
        from branchrank.questions.question_files import write_questions
        from branchrank.search.llm.session import open_work

        nodes, lines = self._sections()
        with open_work(self._folder, base_url, model) as work:
            result = generate_questions(nodes, lines, work, options or GenerationOptions(), progress=progress)
            spent = work.spent
        if result.questions:
            write_questions(Path(output), result.questions)
        return result, spent

    def estimate_generation(self, options: GenerationOptions | None = None) -> tuple[CallBounds, CallBounds]:
        """Return the minimum and the maximum cost of :meth:`generate`, without contacting a server.

        Raises :class:`~branchrank.core.errors.InputError` if no section is long enough.
        """
        from branchrank.questions.generation import GenerationOptions, estimate_generation

        max_tokens = self._folder.settings.part(LLMSettings).completion_tokens
        return estimate_generation(*self._sections(), options or GenerationOptions(), max_tokens)

    def _sections(self) -> tuple[list[Node], dict[str, list[str]]]:
        """Return the nodes in the corpus's tree, and the lines of each document."""
        from branchrank.documents.tree_build import build_nodes

        documents, lines = self._corpus()
        nodes, _ = build_nodes(documents, self._folder.corpus_name)
        return nodes, lines

    def _corpus(self, root: Path | None = None) -> tuple[tuple[Document, ...], dict[str, list[str]]]:
        """Return the documents of a corpus (by default the workspace's), and the lines of each document."""
        from branchrank.documents.loading import corpus_lines, load_corpus

        place = (self._folder.corpus_root, self._folder.exclude) if root is None else (root, ())
        return load_corpus(*place).documents, corpus_lines(*place)

    def _target(self, path: AnyPath | None) -> Path:
        """Return a question file that need not exist."""
        return self._folder.data_dir / self._folder.config.questions if path is None else Path(path)

    def _path(self, path: AnyPath | None) -> Path:
        return self._folder.questions_path if path is None else Path(path)
