"""BEIR folders made by a seed: documents of a topic share its words, queries name a topic by some of them.

Half of a query's words are other forms of the documents' words, so that systems by words, by stems and by
vectors differ.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

SYLLABLES = ("ka", "lo", "mi", "ren", "tas", "vul", "dor", "pe", "sin", "gra", "hub", "zel")
COMMON = ("the", "of", "a", "with", "steam", "boiler", "pressure", "valve", "water", "heat")
ENDINGS = ("", "s", "ing", "ed")


def beir_folder(folder: Path, *, documents: int = 60, queries: int = 24, seed: int = 1) -> Path:
    """Write a folder; every query has 2 to 6 relevant documents of grade 1 or 2, and some judged 0."""
    draw = random.Random(seed)
    topics = [["".join(draw.sample(SYLLABLES, 3)) for _ in range(6)] for _ in range(max(2, documents // 6))]
    of = [draw.randrange(len(topics)) for _ in range(documents)]
    entries = []
    for number, topic in enumerate(of):
        words = [draw.choice(topics[topic]) + draw.choice(ENDINGS) for _ in range(draw.randint(6, 25))]
        words += draw.choices(COMMON, k=draw.randint(10, 60))
        words += draw.choices(draw.choice(topics), k=4)
        draw.shuffle(words)
        entries.append({"_id": f"d{number}", "title": draw.choice(words), "text": " ".join(words)})
    asked, judged = [], []
    filled = [topic for topic in range(len(topics)) if of.count(topic) >= 2]
    for number in range(queries):
        topic = draw.choice(filled)
        words = [word + draw.choice(ENDINGS) for word in draw.sample(topics[topic], 2)]
        asked.append({"_id": f"q{number}", "text": " ".join([*words, *draw.sample(COMMON, 2)])})
        right = [place for place in range(documents) if of[place] == topic]
        for place in draw.sample(right, min(len(right), draw.randint(2, 6))):
            judged.append(f"q{number}\td{place}\t{draw.choice((1, 1, 2))}")
        wrong = [place for place in range(documents) if of[place] != topic]
        judged += [f"q{number}\td{place}\t0" for place in draw.sample(wrong, 3)]
    write(folder, entries, asked, judged)
    return folder


def write(
    folder: Path, entries: list[dict[str, str]], queries: list[dict[str, str]], judged: list[str]
) -> None:
    """Write the files of a folder, the judgments as the split ``test``."""
    (folder / "qrels").mkdir(parents=True)
    for name, lines in (("corpus", entries), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")
