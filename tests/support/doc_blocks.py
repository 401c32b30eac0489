"""The code blocks of README and docs, and the commands in them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
SHELL = ("bash", "console")
_BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text, and the line of the page that it starts in."""

    page: str
    line: int
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """One command, its lines joined, and the lines that the page says it prints."""

    text: str
    printed: tuple[str, ...] = ()


def blocks(page: str, *languages: str) -> list[Block]:
    """The blocks of a page in these languages, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [
        Block(page, text[: match.start()].count("\n") + 2, match[1], match[2])
        for match in _BLOCK.finditer(text)
    ]
    return [block for block in found if block.language in languages]


def commands(block: Block) -> list[Command]:
    """The commands of a block. In a ``console`` block they follow ``$``, and what they print follows them."""
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    if block.language == "bash":
        return [Command(line) for line in lines if line.strip() and not line.startswith("#")]
    found: list[Command] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif line.strip():
            last = found.pop()
            found.append(Command(last.text, (*last.printed, line.rstrip())))
    return found


def not_run() -> dict[str, str]:
    """The commands that this test does not run, by how they start, each with the reason."""
    path = ROOT / "tests" / "docs" / "not_run.toml"
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["command"]
    return {start: each["reason"] for each in entries for start in each["starts"]}


def is_run(command: Command) -> bool:
    return not f"{command.text}\n".startswith(tuple(not_run()))
