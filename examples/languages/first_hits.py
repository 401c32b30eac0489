"""Print how often each system's first hit is a passage that the pages' translators left in English.

``python examples/languages/first_hits.py RUN...`` prints a row for each system and a column for each run. The
corpora must have been downloaded. A passage is untranslated if the English page contains
the text of its longest line.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import branchrank as br
from branchrank.documents.named import locate_corpus


def text_of(lines: list[str]) -> str:
    """Return the text of lines of HTML, without tags, and with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", "", " ".join(lines)).split())


def main(folders: list[str]) -> None:
    """Print the table."""
    english = locate_corpus("developers-reference")
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    runs = []
    for folder in folders:
        record = json.loads((Path(folder) / "run.json").read_text(encoding="utf-8"))
        corpus = locate_corpus(Path(record["corpus"]).name)
        runs.append(record["experiment"])
        for row in br.Run.load(folder).questions.itertuples():
            if not isinstance(row.first_hit, str) or not row.first_hit:
                continue
            source, _, lines = row.first_hit.rpartition(":")
            first, last = map(int, lines.split("-"))
            hit = (corpus / source).read_text(encoding="utf-8").split("\n")[first - 1 : last]
            page = text_of((english / source).read_text(encoding="utf-8").split("\n"))
            longest = max((text_of([line]) for line in hit), key=len)
            of = counts[row.predictor]
            of[runs[-1]] = of.get(runs[-1], 0) + (longest in page)
    print("| system |", " | ".join(runs), "|")
    print("| --- |", " | ".join("---:" for _ in runs), "|")
    for system, found in counts.items():
        print(f"| {system} |", " | ".join(str(found.get(run, "")) for run in runs), "|")


if __name__ == "__main__":
    main(sys.argv[1:])
