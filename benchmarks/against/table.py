"""Read and write a run's table as JSON and Markdown, and compare it with an earlier table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

#: A ratio counts as worse if its whole interval is below this fraction of the earlier ratio.
TOLERATED = 0.8
_REWRITE = "fix: make bench WRITE=--write"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row that compares two programs. Times are medians in milliseconds per ``unit``.

    The ratio of a round is the other program's time divided by BranchRank's time. ``ratio`` is the median of
    the rounds' ratios, and ``low`` and ``high`` are the bounds of the 95% confidence interval of this median.
    """

    group: str
    what: str
    against: str
    unit: str
    ours_ms: float
    theirs_ms: float
    ratio: float
    low: float
    high: float
    rounds: int
    answers: str

    @property
    def key(self) -> tuple[str, str, str]:
        """The values that identify the row: group, task, and the other program's name without its version."""
        return self.group, self.what, self.against.split(" ")[0]


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison that was skipped, with the reason."""

    group: str
    against: str
    reason: str


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A command's median CPU time over several rounds, and the upper limit of this time, in seconds."""

    command: str
    cpu_s: float
    bound_s: float


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A system's hit rates on the questions, from 0 to 1."""

    system: str
    questions: int
    rates: dict[str, float]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine on which a table's times were measured, with its one-minute load averages."""

    cpu: str
    cores: int
    python: str
    load_before: float
    load_after: float


class Corpus(msgspec.Struct, frozen=True, kw_only=True):
    """The searched corpus. ``digest`` is the corpus digest from the index's manifest."""

    name: str
    digest: str
    chunks: int
    questions: int


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """All results from one run of this benchmark."""

    machine: Machine
    corpus: Corpus
    seconds: float
    rows: list[Row]
    starts: list[Start]
    rates: list[Rate]
    skipped: list[Skipped]


class UnreadableTableError(Exception):
    """Raised if a stored table is missing, damaged or from a different corpus."""


def read_table(path: Path) -> Table:
    """Read a table. Raises :class:`UnreadableTableError` if the file is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Table)
    except (OSError, msgspec.MsgspecError) as error:
        raise UnreadableTableError(
            f"{path} is not a table: {error}\nfix: make bench WRITE=--write"
        ) from error


def write_table(path: Path, table: Table) -> None:
    """Write a table as indented JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(table), indent=2) + b"\n")


def problems(now: Table, before: Table) -> list[str]:
    """Return one sentence for each ratio that is worse than in the earlier table.

    Raises :class:`UnreadableTableError` if the tables have different corpora or numbers of questions.
    """
    if (now.corpus.digest, now.corpus.questions) != (before.corpus.digest, before.corpus.questions):
        raise UnreadableTableError(
            f"the tables have different corpora or questions: {now.corpus.name} "
            f"({now.corpus.questions} questions) now, {before.corpus.name} "
            f"({before.corpus.questions} questions) before\n{_REWRITE}"
        )
    rows = {row.key: row for row in now.rows}
    found = []
    for row in before.rows:
        same = rows.get(row.key)
        name = f"{row.what} against {row.key[-1]}"
        if same is None:
            found.append(f"{name}: not measured now")
        elif same.high < TOLERATED * row.ratio:
            found.append(
                f"{name}: {same.ratio:.2f} [{same.low:.2f}, {same.high:.2f}] now, {row.ratio:.2f} before: "
                f"{1 - same.ratio / row.ratio:.0%} worse"
            )
    return found


def markdown(table: Table) -> str:
    """Return the table as Markdown."""
    corpus, machine = table.corpus, table.machine
    parts = [
        f"{corpus.name}: {corpus.chunks:,} chunks, {corpus.questions} questions. {machine.cpu}, "
        f"{machine.cores} cores, Python {machine.python}. Load {machine.load_before:.1f} before, "
        f"{machine.load_after:.1f} after the run, which took {table.seconds / 60:.1f} minutes.",
        _grid(
            ("what", "against", "BranchRank", "the other", "ratio", "rounds", "answers"),
            [
                (
                    row.what,
                    row.against,
                    f"{_time(row.ours_ms)} per {row.unit}",
                    _time(row.theirs_ms),
                    f"**{row.ratio:.2f}** ({row.low:.2f} to {row.high:.2f})",
                    str(row.rounds),
                    row.answers,
                )
                for row in table.rows
            ],
        ),
    ]
    if table.skipped:
        lines = (f"- {each.against}: {each.reason}." for each in table.skipped)
        parts.append("Not compared:\n\n" + "\n".join(lines))
    if table.starts:
        rows = [(f"`{each.command}`", f"{each.cpu_s:.2f}", f"{each.bound_s:.2f}") for each in table.starts]
        parts.append(_grid(("process", "CPU seconds", "bound"), rows))
    if table.rates:
        measures = list(table.rates[0].rates)
        parts.append(
            _grid(
                ("system", "questions", *measures),
                [
                    (each.system, str(each.questions), *(f"{100 * each.rates[m]:.0f}%" for m in measures))
                    for each in table.rates
                ],
            )
        )
    return "\n\n".join(parts) + "\n"


def _time(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2f} s"
    return f"{milliseconds:.3g} ms" if milliseconds >= 0.01 else f"{1000 * milliseconds:.2g} µs"


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
