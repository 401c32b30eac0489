# titles.py: rank pages by how many words of the query their first line contains
from pathlib import Path

from branchrank.core.records import Hit

DOCS = Path("docs")


class Titles:
    name = "titles"
    llm = "none"

    def __init__(self) -> None:
        self.pages = {}
        for path in sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")]):
            lines = path.read_text(encoding="utf-8").splitlines()
            self.pages[path.relative_to(DOCS).as_posix()] = lines

    def retrieve(self, query: str, k: int) -> list[Hit]:
        words = set(query.lower().split())
        scored = []
        for source, lines in self.pages.items():
            shared = len(words & set(lines[0].lower().split()))
            scored.append((-shared, source, lines[:20]))
        return [
            Hit(
                id=source,
                source=source,
                line_start=1,
                line_end=len(lines),
                text="\n".join(lines),
                score=float(-negative),
            )
            for negative, source, lines in sorted(scored)[:k]
        ]
