"""Print how often each system's first hit is in the corpus that contains the answer.

``python examples/formats/corpora.py RUN`` prints a table of shares by the format of the corpus.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path


def main(run: Path) -> None:
    """Print the table. The corpus of a page is the first folder of its path."""
    lines = map(json.loads, (run / "questions.jsonl").read_text(encoding="utf-8").splitlines())
    gold = {each["id"]: each["source_file"].split("/")[0] for each in lines if each.get("source_file")}
    found: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    with (run / "questions.csv").open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            if corpus := gold.get(row["question_id"]):
                found[row["predictor"]][corpus].append(row["first_hit"].split("/")[0] == corpus)
    corpora = sorted(set(gold.values()))
    print("| system |", " | ".join(corpora), "|")
    print("| --- |", " | ".join("---:" for _ in corpora), "|")
    for system, of in found.items():
        print(f"| {system} |", " | ".join(f"{sum(of[each]) / len(of[each]):.1%}" for each in corpora), "|")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
