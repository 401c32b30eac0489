"""Anchoring: how many transformed passages are found at the lines that they came from, and how fast.

    python benchmarks/anchoring.py CORPUS [CORPUS ...] [--passages 10000] [--exclude GLOB]

1. A passage is a run of lines of a document, drawn by the seed, with at least ``WORDS`` words. It is
   transformed as splitters and loaders transform texts (``TRANSFORMATIONS``), and located in its corpus
   without its source. The passages of HTML have no tags.
2. An anchor is right if it is in the right document, and its first and last line are at most ``TOLERANCE``
   lines from the first and the last line of the passage that the transformation left.
3. Precision is the share of right anchors among the anchors, and recall the share among all passages. A
   passage that is in the corpus several times is ambiguous, which costs recall.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from branchrank.core.records import Passage
from branchrank.documents.locating import Anchor, Locator
from branchrank.documents.word_index import readable

WORDS = 8
TOLERANCE = 1


#: The lines of a passage with their numbers in the document.
Lines = list[tuple[int, str]]


def as_it_is(lines: Lines, draw: random.Random) -> Lines:
    """The raw lines."""
    return lines


def joined(lines: Lines, draw: random.Random) -> Lines:
    """All whitespace is one space."""
    return [(number, " ".join(line.split())) for number, line in lines]


def stripped(lines: Lines, draw: random.Random) -> Lines:
    """Without the markup of Markdown, reStructuredText and HTML."""
    kept = []
    for number, line in lines:
        text = re.sub(r"<[^<>]+>|^\s*\.\. .*$|^\s*([-=~^\"'.`#*+])\1{2,}\s*$", " ", line)
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
        text = re.sub(r":[a-z:]+:`([^`<]*?)(?:\s*<[^>]*>)?`", r"\1", text)
        kept.append((number, re.sub(r"[*`|]|\b_|_\b|^\s*#+\s", "", text)))
    return kept


def window(lines: Lines, draw: random.Random) -> Lines:
    """Cut in the middle of words at both ends, as windows of tokens are."""
    first, last = lines[0], lines[-1]
    if len(lines) == 1:
        return [(first[0], first[1].strip()[draw.randrange(1, 4) : -draw.randrange(1, 4)])]
    start = (first[0], first[1].lstrip()[draw.randrange(1, 4) :])
    return [start, *lines[1:-1], (last[0], last[1].rstrip()[: -draw.randrange(1, 4)])]


def prefixed(lines: Lines, draw: random.Random) -> Lines:
    """With the title of the document and a heading in front."""
    return [(0, f"{TITLE} > Section {draw.randrange(9)}"), (0, ""), *lines]


def without_code(lines: Lines, draw: random.Random) -> Lines:
    """Without fenced code and literal blocks."""
    kept: Lines = []
    fenced = literal = False
    for number, line in lines:
        fence = line.startswith("```")
        literal = literal and not re.match(r"\S", line)
        if not (fence or fenced or literal):
            kept.append((number, line))
        fenced ^= fence
        literal |= line.startswith(".. code-block::") or (line.endswith("::") and not line.startswith(" "))
    return kept


def typographic(lines: Lines, draw: random.Random) -> Lines:
    """With typographic quotes and dashes, and other line breaks."""
    table = str.maketrans({"'": "\u2019", '"': "\u201d", "\t": "  "})
    return [(number, line.translate(table).replace("--", "\u2013") + "\r") for number, line in lines]


TITLE = "TITLE"
TRANSFORMATIONS: tuple[Callable[[Lines, random.Random], Lines], ...] = (
    as_it_is,
    joined,
    stripped,
    window,
    prefixed,
    without_code,
    typographic,
)


def words_of(text: str) -> list[str]:
    """The words of a text, for the choice of passages."""
    return re.findall(r"[^\W_]+", text)


def passages(documents: dict[str, list[str]], count: int, draw: random.Random) -> list[tuple[str, Lines]]:
    """Draw passages of 1 to 40 lines whose first and last line have words."""
    sources = sorted(documents)
    weights = [len(documents[source]) for source in sources]
    found: list[tuple[str, Lines]] = []
    while len(found) < count:
        [source] = draw.choices(sources, weights)
        first = draw.randrange(len(documents[source]))
        lines = list(enumerate(documents[source], start=1))[first : first + 1 + draw.randrange(40)]
        if total(lines) >= WORDS and words_of(lines[0][1]) and words_of(lines[-1][1]):
            found.append((source, lines))
    return found


def total(lines: Lines) -> int:
    """The number of words of some lines of a document."""
    return sum(len(words_of(line)) for number, line in lines if number)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument(
        "--exclude", action="append", default=[], help="documents to leave out, such as 'api/*'"
    )
    parser.add_argument("--misses", type=int, default=0, help="print this many misses of each kind")
    given = parser.parse_args()
    draw = random.Random(given.seed)
    outcomes: dict[str, Counter[str]] = {each.__name__: Counter() for each in TRANSFORMATIONS}
    times: list[float] = []
    for corpus in given.corpora:
        start = time.perf_counter()
        locator = Locator.of(corpus, given.exclude)
        documents = {source: [*readable(source, lines)] for source, lines in locator.documents.items()}
        locator.find(Passage(text="warm up"))
        print(f"{corpus}: {len(documents)} documents, index in {time.perf_counter() - start:.1f} s")
        drawn = passages(documents, given.passages // len(given.corpora), draw)
        for at, (source, lines) in enumerate(drawn):
            transform = TRANSFORMATIONS[at % len(TRANSFORMATIONS)]
            left = transform(lines, draw)
            raw = dict(lines)
            kept = [
                number for number, line in left if number and {*words_of(line)} & {*words_of(raw[number])}
            ]
            if total(left) < WORDS:
                continue
            wanted = kept[0], kept[-1]
            title = next(line.strip(" #=") for line in documents[source] if words_of(line))
            text = (" " if transform is joined else "\n").join(line for _, line in left)
            text = text.replace(TITLE, title)
            start = time.perf_counter()
            found = locator.find(Passage(text=text))
            times.append(time.perf_counter() - start)
            outcome = found if not isinstance(found, Anchor) else judged(found, source, wanted)
            counts = outcomes[transform.__name__]
            counts[outcome] += 1
            if outcome != "right" and counts[outcome] <= given.misses:
                print(f"{transform.__name__}: {outcome}: {source}:{wanted} {found}\n{text[:300]!r}")
    print(
        "\n| transformation | passages | right | wrong | missing | ambiguous |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    whole: Counter[str] = sum(outcomes.values(), Counter())
    for name, counts in {**outcomes, "all": whole}.items():
        cells = (counts[key] for key in ("right", "wrong", "missing", "ambiguous"))
        print(f"| {name.replace('_', ' ')} | {counts.total()} | {' | '.join(map(str, cells))} |")
    slow = sorted(times)[len(times) * 99 // 100]
    print(
        f"\nprecision {whole['right'] / (whole['right'] + whole['wrong']):.4f}, "
        f"recall {whole['right'] / whole.total():.4f}, "
        f"median {1000 * statistics.median(times):.2f} ms, p99 {1000 * slow:.1f} ms"
    )


def judged(found: Anchor, source: str, wanted: tuple[int, int]) -> str:
    """Return whether an anchor is right."""
    near = abs(found.line_start - wanted[0]) <= TOLERANCE and abs(found.line_end - wanted[1]) <= TOLERANCE
    return "right" if found.source == source and near else "wrong"


if __name__ == "__main__":
    main()
