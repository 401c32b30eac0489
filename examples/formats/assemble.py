"""Assemble a corpus of three formats, and the questions about it, from corpora that were downloaded by name.

``python examples/formats/assemble.py FOLDER`` copies the documents to ``FOLDER/docs``, with a subfolder for
each corpus, and writes the questions to ``FOLDER/questions.jsonl``. The kind of each question becomes the
format of its corpus.
"""

from __future__ import annotations

import json
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from branchrank.documents.named import locate_corpus, named_corpus

#: The format of each corpus, and the suffix of its documents.
CORPORA = {
    "lxml": ("HTML", ".html"),
    "sqlalchemy": ("reStructuredText", ".rst"),
    "werkzeug": ("Python", ".py"),
}
EXAMPLES = Path(__file__).parents[1]


def copy_documents(corpus: str, target: Path) -> None:
    """Copy the documents of a corpus, except those that its questions leave out."""
    root, exclude, suffix = locate_corpus(corpus), named_corpus(corpus).exclude, CORPORA[corpus][1]

    def left_out(folder: str, names: list[str]) -> list[str]:
        paths = [Path(folder, name) for name in names]
        return [
            path.name
            for path in paths
            if any(fnmatchcase(path.relative_to(root).as_posix(), pattern) for pattern in exclude)
            or (path.is_file() and path.suffix != suffix)
        ]

    shutil.copytree(root, target, ignore=left_out)


def moved(question: dict[str, Any], corpus: str) -> dict[str, Any]:
    """Return a question whose files are in the folder of its corpus."""
    for item in (question, *question.get("alternates", ())):
        if "source_file" in item:
            item["source_file"] = f"{corpus}/{item['source_file']}"
    return question | {"kind": CORPORA[corpus][0]}


def main(folder: Path) -> None:
    """Write the documents and the questions."""
    lines = []
    for corpus in CORPORA:
        copy_documents(corpus, folder / "docs" / corpus)
        with (EXAMPLES / f"{corpus}-questions.jsonl").open(encoding="utf-8") as questions:
            lines += [json.dumps(moved(json.loads(line), corpus)) + "\n" for line in questions]
    (folder / "questions.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
