"""What the long fault and attack runs found, one JSON file per part below ``build/harness/``.

``docs/results/harness.json`` is the committed collection, and ``docs/security.md`` shows it as a table. A
part that was not run again keeps its committed counts:

    PYTHONPATH=tests python -m support.harness          # both from build/harness/
    PYTHONPATH=tests python -m support.harness --table  # the page from the committed collection
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from support import draw

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "build" / "harness"
COLLECTED = ROOT / "docs" / "results" / "harness.json"
PAGE = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- harness: begin -->\n", "<!-- harness: end -->\n"
#: The counts of a part, in the order of the table's columns.
COUNTS = ("trials", "lost", "silent", "leaked", "crashed", "hung", "wrong")


@dataclass(frozen=True, kw_only=True)
class Part:
    """The counts of one part.

    ``lost``: after a fault the next command fails or gives another result. ``silent``: a command reports
    success in spite of a fault that changed its result. ``leaked``: a secret where none may be, or a
    connection that no flag names. ``crashed``: a traceback. ``hung``: longer than its limit. ``wrong``: an
    answer that differs from the reference.
    """

    part: str
    trials: int
    lost: int = 0
    silent: int = 0
    leaked: int = 0
    crashed: int = 0
    hung: int = 0
    wrong: int = 0
    seconds: float = 0.0
    seed: int = 0


def record(name: str, part: Part) -> None:
    """Write ``build/harness/NAME.json``, if the campaign is whole."""
    if draw.DRAWN_WITH is not None:
        return
    FOUND.mkdir(parents=True, exist_ok=True)
    (FOUND / f"{name}.json").write_text(json.dumps(asdict(part)) + "\n", encoding="utf-8")


def collect(folder: Path = FOUND) -> list[Part]:
    """The parts in ``folder``; files of the same part are added up."""
    parts: dict[str, Part] = {}
    for path in sorted(folder.glob("*.json")):
        part = Part(**json.loads(path.read_text(encoding="utf-8")))
        parts[part.part] = _sum(parts[part.part], part) if part.part in parts else part
    return [parts[name] for name in sorted(parts)]


def _sum(one: Part, other: Part) -> Part:
    counts = {name: getattr(one, name) + getattr(other, name) for name in COUNTS}
    seconds = round(one.seconds + other.seconds, 1)
    return Part(part=one.part, seconds=seconds, seed=one.seed, **counts)


def read_collected() -> list[Part]:
    """The committed parts."""
    return [Part(**part) for part in json.loads(COLLECTED.read_text(encoding="utf-8"))]


def table(parts: Iterable[Part]) -> str:
    """The parts as a Markdown table."""
    lines = [f"| part | {' | '.join(COUNTS)} | seconds | seed |", "| --- |" + " ---: |" * (len(COUNTS) + 2)]
    for part in parts:
        counts = " | ".join(f"{getattr(part, name):,}" for name in COUNTS)
        lines.append(f"| {part.part} | {counts} | {part.seconds:,.0f} | {part.seed} |")
    return "\n".join(lines) + "\n"


def with_table(page: str, parts: Iterable[Part]) -> str:
    """The page with this table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(parts)}\n{END}{after}"


def main(words: Sequence[str] | None = None) -> None:
    """Write the collection and the page's table."""
    parser = argparse.ArgumentParser(
        prog="python -m support.harness", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--table", action="store_true", help="only write the table again")
    if not parser.parse_args(words).table:
        parts = {part.part: asdict(part) for part in (*read_collected(), *collect())}
        content = json.dumps([parts[name] for name in sorted(parts)], indent=1)
        COLLECTED.write_text(content + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), read_collected()), encoding="utf-8")


if __name__ == "__main__":
    main()
