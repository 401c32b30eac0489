"""One way to break the product: a text replaced in a file, and the tests that must fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class BrokenMutantError(Exception):
    """The mutant doesn't apply to the files as they are now."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old``, which occurs exactly once in the file ``path``, becomes ``new``; one of ``tests`` must fail.

    Where ``new`` is ``None`` the whole file is missing. ``path`` and ``tests`` (pytest ids) are relative to
    the project's root. ``name`` is unique.
    """

    name: str
    path: str
    old: str
    new: str | None
    tests: tuple[str, ...]

    def mutated(self, root: Path = ROOT) -> str | None:
        """The file's text with the defect, ``None`` for no file.

        Raises :class:`BrokenMutantError` when the defect can't be made.
        """
        file = root / self.path
        if not file.is_file():
            raise BrokenMutantError(f"{self.path} does not exist")
        if self.new is None:
            return None
        text = file.read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise BrokenMutantError(f"{self.path}: the text to replace occurs {count} times, not once")
        if self.old == self.new:
            raise BrokenMutantError("the replacement changes nothing")
        return text.replace(self.old, self.new)
