"""Print the tables of docs/languages.md, and write the rank of each question.

``python examples/languages/tables.py RUN...`` prints two tables for each group of runs, with a row for each
system and a column for each run: strict hit@1 with its 95% interval / hit@5, and the wins and losses against
``local`` in strict hit@1, with the p-value of McNemar's test, which ignores the pages and the number of
comparisons. It writes the strict rank of each question (0: none of the first five hits) to
``examples/languages/ranks.jsonl``, one line for each run and system.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import branchrank as br

RANKS = Path(__file__).parent / "ranks.jsonl"


def group_of(name: str) -> str:
    """Return the table that has the run ``QUERY-on-PAGES``."""
    query, _, pages = name.partition("-on-")
    if query == pages:
        return "questions in the language of the pages"
    return "English pages" if pages == "en" else "English questions"


def cells(run: br.Run) -> tuple[dict[str, str], dict[str, str]]:
    """Return the rates of each system, and the wins, losses and p-value of each comparison."""
    rates, compared = {}, {}
    for _, row in run.summary.iterrows():
        first, low, high, fifth = (100 * row[f"strict_hit@{key}"] for key in ("1", "1_low", "1_high", "5"))
        rates[row.predictor] = f"{first:.1f} ({low:.0f} to {high:.0f}) / {fifth:.1f}"
    for _, row in run.comparisons[run.comparisons.measure == "strict_hit@1"].iterrows():
        compared[row.candidate] = f"{row.wins} : {row.losses} ({row.p_mcnemar:.2g})".replace("(0.", "(.")
    return rates, compared


def main(folders: list[str]) -> None:
    """Print the tables and write the ranks."""
    tables: dict[str, dict[str, tuple[dict[str, str], dict[str, str]]]] = defaultdict(dict)
    lines = []
    for folder in folders:
        run = br.Run.load(folder)
        name = json.loads((Path(folder) / "run.json").read_text(encoding="utf-8"))["experiment"]
        tables[group_of(name)][name] = cells(run)
        for system, of in run.questions.groupby("predictor", sort=False):
            ranks = [int(rank) for rank in of.sort_values("question_id").strict_rank.fillna(0)]
            lines.append(json.dumps({"run": name, "system": system, "strict_ranks": ranks}) + "\n")
    for group, runs in tables.items():
        for part, title in enumerate(("strict hit@1 / hit@5", "wins : losses")):
            print(f"{group}\n\n| {title} |", " | ".join(runs), "|")
            print("| --- |", " | ".join("---" for _ in runs), "|")
            for system in dict.fromkeys(system for of in runs.values() for system in of[part]):
                print(f"| {system} |", " | ".join(of[part].get(system, "") for of in runs.values()), "|")
            print()
    RANKS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
