"""The starter files of ``branchrank init``, and the copy of the bundled sample that ``demo`` makes.

1. ``branchrank.toml`` in the workspace's folder contains the path of the documents' folder and the settings
   of the index.
2. ``questions.jsonl`` has three example questions. Each example question asks about a section of the
   documents. The gold is a paragraph in the section. A run that uses example questions prints a warning.
3. ``experiment.toml`` compares three systems that need no LLM. You can run ``branchrank run experiment.toml``
   without editing ``experiment.toml``.

The sample (documents and questions about them) is copied into a folder, with a ``branchrank.toml`` whose
first line marks the folder as a demo. A folder that is not marked as a demo must be empty. Existing files
are never overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from branchrank.core.errors import CorpusError, UsageError
from branchrank.core.io.files import storage_errors, write_bytes, write_text
from branchrank.core.io.text_files import read_text
from branchrank.core.records import GoldItem, Question, Record, Span
from branchrank.core.settings import DEFAULT_DATA_DIR, DEFAULT_REPORTS, read_toml
from branchrank.documents.document import Block, Document, Section
from branchrank.documents.loading import corpus_lines, discover, load_corpus
from branchrank.documents.named import locate_corpus
from branchrank.index.embedders.protocol import MODEL
from branchrank.index.generations import build_lock, refuse_links
from branchrank.index.workspace_folder import CONFIG, read_config
from branchrank.questions.anchoring import span_digest
from branchrank.questions.question_files import EXAMPLE, only_writer_of, question_line

#: If no folder with documents is given, folders with these names are tried, in this order.
USUAL_FOLDERS = ("docs", "doc")
QUESTIONS, EXPERIMENT = Path("questions.jsonl"), Path("experiment.toml")
EXAMPLES = 3
#: The gold of an example question is a paragraph with at least ``WORDS`` words. If the paragraph is longer
#: than ``LINES`` lines, only the first ``LINES`` lines are gold.
WORDS, LINES = 8, 8

STAND_IN = "fake"
_MARK = "# Made by `branchrank demo`."
_DEMO_CONFIG = """\
{mark} The sample is a copy of BranchRank's own documentation.
corpus = "sample/corpus"
questions = "sample/questions.jsonl"

[index]
embedder = "{embedder}"
"""

_CONFIG = """\
# The index's documents and settings. Paths are relative to this file.
corpus = {corpus}
questions = {questions}
{exclude}
[index]
# This small model runs on a CPU. For a machine with a GPU, this larger model is better (a 550 MB download):
# embedder = "nomic-ai/CodeRankEmbed"
embedder = "{embedder}"
"""
_EXPERIMENT = """\
# Compare three systems on your questions:  branchrank run {name}
# The index is built first, if it is missing. Paths are relative to the working directory.
name = "first comparison"
data_dir = {data_dir}
questions = {questions}

[benchmark]
primary = "strict_hit@1"   # the share of questions whose first hit overlaps the right lines
baseline = "local"         # the system that the others are compared with

# Vectors and BM25 over passages, fused by rank.
[systems.local]

# Vectors and BM25 over sections, plus neighboring sections in the heading tree; no LLM.
[systems.hybrid]
rerank.method = "none"

# The passages of `local`, reordered by a comparison of token vectors.
[systems.late-interaction]

# `local` over documents that are divided in another way: remove the first "# " of each line.
# [indexes.windows]
# chunker = "window"
# chunk_tokens = 128
# [systems.local-windows]
# from = "local"
# index = "windows"
"""
_NOTE = "an example written by `branchrank init`: replace it with a question that your readers ask"


class StarterFiles(Record, frozen=True, kw_only=True):
    """The result of writing starter files.

    ``written`` contains the new files, and ``kept`` contains the files that already existed. ``corpus`` is
    the folder of the documents, and ``documents`` is the number of documents.
    ``notes`` are those of the corpus, and one about an experiment for another workspace.
    """

    corpus: Path
    documents: int
    notes: tuple[str, ...]
    written: tuple[Path, ...]
    kept: tuple[Path, ...]


def usual_folder() -> Path:
    """Return the folder ``docs`` or, if ``docs`` contains no documents, the folder ``doc``.

    Raises :class:`CorpusError` if neither ``docs`` nor ``doc`` contains documents.
    """
    for name in USUAL_FOLDERS:
        try:
            discover(Path(name))
        except CorpusError:
            continue
        return Path(name)
    raise CorpusError(
        f"there are no documents in {' or '.join(f'{name}/' for name in USUAL_FOLDERS)}",
        remedy="branchrank init FOLDER",
    )


def init(corpus: str | Path | None = None, data_dir: str | Path = "data") -> StarterFiles:
    """Write the starter files for a benchmark on your own documents into the working directory.

    The files are ``branchrank.toml`` in ``data_dir``, ``questions.jsonl`` with three example questions, and
    ``experiment.toml``. ``corpus`` is a corpus name or the folder that contains the documents (by default
    ``docs`` or ``doc``). Existing files are not overwritten. If an error is raised, no file is written.

    Raises :class:`~branchrank.core.errors.CorpusError` if no documents are found, and
    :class:`~branchrank.core.errors.UsageError` if the workspace ``data_dir`` contains other documents.

    >>> [path.name for path in init("docs", "data/first").written]
    ['branchrank.toml', 'questions.jsonl', 'experiment.toml']
    """
    data_dir = Path(data_dir)
    root = locate_corpus(usual_folder() if corpus is None else corpus)
    exclude = tuple(_own_folders(root, data_dir))
    loaded = load_corpus(root, exclude)
    documents = loaded.documents
    config = data_dir / CONFIG
    _check_same(config, root, data_dir)
    texts = {
        config: _CONFIG.format(
            corpus=_quoted(_relative(root, data_dir)),
            questions=_quoted(_relative(QUESTIONS, data_dir)),
            exclude=f"exclude = {msgspec.json.encode(exclude).decode()}\n" if exclude else "",
            embedder=MODEL,
        ),
        QUESTIONS: "".join(
            msgspec.json.encode(question_line(each)).decode() + "\n"
            for each in example_questions(documents, corpus_lines(root, exclude))
        ),
        EXPERIMENT: _EXPERIMENT.format(
            name=EXPERIMENT, data_dir=_quoted(data_dir.as_posix()), questions=_quoted(str(QUESTIONS))
        ),
    }
    with build_lock(data_dir), only_writer_of(QUESTIONS):
        kept = tuple(path for path in texts if path.exists() or path.is_symlink())
        made = {path: text for path, text in texts.items() if path not in kept}
        for path, text in made.items():
            write_text(path, text)
    notes = loaded.notes
    if EXPERIMENT in kept and (other := _workspace_of(EXPERIMENT)) not in (None, data_dir):
        notes = (*notes, f"{EXPERIMENT} was kept: it measures the workspace {other}, not {data_dir}")
    return StarterFiles(corpus=root, documents=len(documents), notes=notes, written=tuple(made), kept=kept)


def _workspace_of(experiment: Path) -> Path | None:
    """Return the workspace that an experiment file names, or ``None`` if the file can't be read."""
    with suppress(UsageError):
        return Path(str(read_toml(experiment).get("data_dir", DEFAULT_DATA_DIR)))
    return None


def example_questions(documents: Sequence[Document], lines: dict[str, list[str]]) -> list[Question]:
    """Return up to three example questions about paragraphs in different parts of the corpus.

    ``lines`` maps each document's path to its unprocessed lines. Raises :class:`CorpusError` if no paragraph
    has at least :data:`WORDS` words.
    """
    places = [place for document in documents if (place := next(_paragraphs(document), None)) is not None]
    if len(places) < EXAMPLES:
        places = [place for document in documents for place in _paragraphs(document)]
    if not places:
        raise CorpusError(
            f"no document has a paragraph of at least {WORDS} words for an example question",
            remedy="choose a folder with more text",
        )
    count = min(EXAMPLES, len(places))
    chosen = [places[(2 * number + 1) * len(places) // (2 * count)] for number in range(count)]
    titles = [" ".join(section.title.split()) for _, section, _ in chosen]
    made = []
    for number, (document, section, block) in enumerate(chosen, start=1):
        start, end = block.line_start, min(block.line_end, block.line_start + LINES - 1)
        title = titles[number - 1]
        where = f" in {document.source}" if titles.count(title) > 1 else ""
        span = Span(source=document.source, line_start=start, line_end=end)
        made.append(
            Question(
                id=f"example-{number}",
                question=f"What is there to know about {title}{where}?",
                gold=(GoldItem.of(span, digest=span_digest(span, lines)),),
                section_title=section.title,
                extra={EXAMPLE: _NOTE},
            )
        )
    return made


def _paragraphs(document: Document) -> Iterator[tuple[Document, Section, Block]]:
    """Yield the first paragraph of each titled section, if the paragraph has enough words."""
    for section in sorted(document.sections, key=lambda each: each.level == 0):
        if not any(character.isalpha() for character in section.title):
            continue
        block = next((each for each in section.blocks if each.kind == "prose"), None)
        if block is not None and len(block.text.split()) >= WORDS:
            yield document, section, block


def _check_same(config: Path, root: Path, data_dir: Path) -> None:
    """Raise :class:`UsageError` if the workspace in ``data_dir`` indexes a different folder."""
    before = read_config(config)[0].corpus
    if before and (data_dir / before).resolve() != root.resolve():
        raise UsageError(
            f"{config} already exists and indexes {before!r}; it was left unchanged",
            remedy=f"use another workspace with --data-dir, or run: branchrank index --data-dir {data_dir}",
        )


def _own_folders(root: Path, data_dir: Path) -> Iterator[str]:
    """Yield the relative paths of BranchRank's output folders that are inside the corpus."""
    for folder in (data_dir, DEFAULT_REPORTS):
        inside = os.path.relpath(folder.resolve(), root.resolve())
        if inside != "." and not inside.startswith(".."):
            yield Path(inside).as_posix()


def _relative(path: Path, data_dir: Path) -> str:
    return Path(os.path.relpath(path.resolve(), data_dir.resolve())).as_posix()


def _quoted(text: str) -> str:
    """Encode a path as a JSON string literal, which is also valid in TOML. Raises :class:`UsageError`."""
    try:
        return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
    except UnicodeEncodeError:
        raise UsageError(f"the path {text!a} is not UTF-8", remedy="rename the folder") from None


def copy_sample(folder: Path, embedder: str) -> None:
    """Copy the sample into ``folder``, without overwriting existing files.

    Raises :class:`UsageError` if ``folder`` is not empty and does not contain a demo.
    """
    config = folder / CONFIG
    refuse_links(folder, "sample/corpus")
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        ours = config.is_file() and read_text(config).startswith(_MARK)
        if not ours and any(folder.iterdir()):
            raise UsageError(
                f"{folder} contains files that are not part of the demo, so nothing was written",
                remedy=f"choose another folder: branchrank demo {folder}-2",
            )
    wanted = _DEMO_CONFIG.format(mark=_MARK, embedder=embedder)
    stand_in = _DEMO_CONFIG.format(mark=_MARK, embedder=STAND_IN)
    if not ours or read_text(config) == stand_in:
        write_text(config, wanted)  # written first, so that a later call can finish an interrupted copy
    sample = sample_folder()
    for path in sorted(sample.rglob("*")):
        target = folder / "sample" / path.relative_to(sample)
        if path.is_file() and not target.exists():
            write_bytes(target, path.read_bytes())


def sample_folder() -> Path:
    """Return the folder of the bundled sample, in the installed package or in a git checkout."""
    package = Path(__file__).parents[1]
    installed = package / "sample"
    return installed if installed.is_dir() else package.parent / "data" / "sample"
