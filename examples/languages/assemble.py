"""Write the question files and experiments about the Developer's Reference in several languages.

``python examples/languages/assemble.py FOLDER`` finds the sections with gold in each downloaded corpus
``developers-reference*``, and writes ``FOLDER/QUERY-on-PAGES.jsonl`` and ``FOLDER/QUERY-on-PAGES.toml`` for
each pair of languages, such as ``en-on-ja`` for English questions about Japanese pages. ``questions.jsonl``
has the questions in English, German and Japanese, with gold as ``page#id``. The pages have the same section
ids in all languages. Gold is a section's lines before its first subsection. Each experiment has the systems
of ``systems.toml``, those of ``e5.toml`` if the pages are in English, German or Japanese, and those of
``german.toml`` if questions and pages are in German.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from branchrank.core.errors import CorpusError
from branchrank.core.records import GoldItem, Question, Span
from branchrank.documents.loading import corpus_lines, load_corpus
from branchrank.documents.named import locate_corpus, named_corpus
from branchrank.questions.anchoring import reanchor
from branchrank.questions.question_files import write_questions

HERE = Path(__file__).parent
#: The languages of the questions about the pages in each language.
PAIRS = {
    "en": ("en", "de", "ja"),
    "de": ("de", "en"),
    "ja": ("ja", "en"),
    "fr": ("en",),
    "it": ("en",),
    "ru": ("en",),
}
E5 = ("en", "de", "ja")
EXPERIMENT = """name = "{query}-on-{pages}"
data_dir = "data/{corpus}"
questions = "{folder}/{query}-on-{pages}.jsonl"
split = "test"

"""


def spans_of(root: Path, exclude: tuple[str, ...]) -> dict[str, Span]:
    """Map ``page#id`` to the lines of each section of a corpus."""
    return {
        f"{document.source}#{label}": Span(
            source=document.source, line_start=section.line_start, line_end=section.own_line_end
        )
        for document in load_corpus(root, exclude).documents
        for section in document.sections
        for label in section.labels
    }


def main(folder: Path) -> None:
    """Write the files of all pairs whose corpus was downloaded."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [json.loads(line) for line in (HERE / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    for pages, queries in PAIRS.items():
        corpus = "developers-reference" if pages == "en" else f"developers-reference-{pages}"
        try:
            root, exclude = locate_corpus(corpus), named_corpus(corpus).exclude
        except CorpusError as error:
            print(f"skipped: {error}")
            continue
        spans, lines = spans_of(root, exclude), corpus_lines(root, exclude)
        for query in queries:
            questions = [
                Question(
                    id=text["id"],
                    question=text[query],
                    gold=tuple(GoldItem.of(spans[anchor]) for anchor in text["gold"]),
                )
                for text in texts
            ]
            name = f"{query}-on-{pages}"
            write_questions(folder / f"{name}.jsonl", reanchor(questions, lines).questions)
            header = EXPERIMENT.format(query=query, pages=pages, corpus=corpus, folder=folder.as_posix())
            parts = [
                "systems",
                *(["e5"] if pages in E5 else []),
                *(["german"] if query == pages == "de" else []),
            ]
            systems = "".join((HERE / f"{part}.toml").read_text(encoding="utf-8") for part in parts)
            (folder / f"{name}.toml").write_text(header + systems, encoding="utf-8")
            print(folder / f"{name}.toml")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
