"""Print the tables of docs/languages.md, and write the results of each question.

``python examples/languages/tables.py RUN...`` prints two tables, with a row for each system and a column for
each run: strict hit@1 / hit@5, and the wins and losses against ``local`` in strict hit@1, with the p-value of
McNemar's test, which ignores the pages and the number of comparisons. It writes the strict rank of each
question (0: none of the first five hits) to ``examples/languages/ranks.jsonl``, one line for each run and
system.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd

import branchrank as br

RANKS = Path(__file__).parent / "ranks.jsonl"


def counts(row: pd.Series) -> str:
    """Return the wins, the losses and McNemar's p-value of a comparison."""
    return f"{row.wins} : {row.losses} ({row.p_mcnemar:.2g})".replace("(0.", "(.")


def main(folders: list[str]) -> None:
    """Print the tables and write the ranks."""
    rates: dict[str, dict[str, str]] = {}
    compared: dict[str, dict[str, str]] = {}
    lines = []
    for folder in folders:
        run = br.Run.load(folder)
        name = json.loads((Path(folder) / "run.json").read_text(encoding="utf-8"))["experiment"]
        for row in run.summary.itertuples():
            at = (f"{100 * row[run.summary.columns.get_loc(f'strict_hit@{k}') + 1]:.1f}" for k in (1, 5))
            rates.setdefault(row.predictor, {})[name] = " / ".join(at)
        for _, row in run.comparisons.iterrows():
            if row.measure == "strict_hit@1":
                compared.setdefault(row.candidate, {})[name] = counts(row)
        for system, of in run.questions.groupby("predictor", sort=False):
            ranks = [int(rank) for rank in of.sort_values("question_id").strict_rank.fillna(0)]
            lines.append(json.dumps({"run": name, "system": system, "strict_ranks": ranks}) + "\n")
    for table in (rates, compared):
        runs = list(dict.fromkeys(name for of in table.values() for name in of))
        print("| system |", " | ".join(runs), "|")
        print("| --- |", " | ".join("---" for _ in runs), "|")
        for system, of in table.items():
            print(f"| {system} |", " | ".join(of.get(name, "") for name in runs), "|")
        print()
    RANKS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
