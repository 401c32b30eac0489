"""Generate a seeded corpus of any size, with vectors that do not need a model.

1. A document has 20 parts (an introduction and 19 sections), and each part becomes one chunk. A chunk has
   about 550 characters, like a chunk of Symfony's documentation. Documents are alternately Markdown and
   reStructuredText, with 100 documents per folder.
2. Words are sampled from a vocabulary of 60,000 words with frequencies that follow the Zipf-Mandelbrot law.
   The most frequent word occurs in about a third of the chunks, as in real documentation without stop words.
   About a twelfth of the words in a document are sampled from the 60 words of the document's topic.
3. A text's vector is the direction of its document's topic plus noise that depends on the text, so texts on
   the same topic are near neighbors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from branchrank.core.io.progress import Progress, no_progress
from branchrank.index.embedders.protocol import EmbedderIdentity, Vectors, unit_rows

CHUNKS_PER_DOCUMENT = 20
DIMENSION = 384
SEED = 42
_VOCABULARY = 60_000
_TOPICS = 500
_TOPIC_WORDS = 60
_WORDS = 84
_NOISE = 1.0
_SHIFT = 30.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _vocabulary() -> list[str]:
    """Return pronounceable words of two to four syllables, shortest first."""
    draw = np.random.default_rng(SEED)
    onsets = np.array(list("bcdfghklmnprstvz"))
    vowels = np.array(list("aeiou"))
    words: dict[str, None] = {}
    while len(words) < _VOCABULARY:
        syllables = 2 + (len(words) > 500) + (len(words) > 20_000)
        picked = np.char.add(draw.choice(onsets, (1000, syllables)), draw.choice(vowels, (1000, syllables)))
        words.update(dict.fromkeys(map("".join, picked.tolist())))
    return list(words)[:_VOCABULARY]


class Words:
    """Samples words from a Zipf-Mandelbrot distribution and from the words of a topic."""

    def __init__(self) -> None:
        self.words = np.array(_vocabulary())
        self._below = np.cumsum(1.0 / (np.arange(_VOCABULARY) + _SHIFT))
        self._below /= self._below[-1]

    def sentence(self, draw: np.random.Generator, count: int, topic: int) -> list[str]:
        """Return ``count`` words, of which about a twelfth are sampled from the words of ``topic``."""
        rows = np.searchsorted(self._below, draw.random(count))
        own = draw.random(count) < 1 / 12
        rows[own] = 1000 + topic * _TOPIC_WORDS + draw.integers(0, _TOPIC_WORDS, int(own.sum()))
        words: list[str] = self.words[rows].tolist()
        return words


def write_corpus(root: Path, chunks: int) -> int:
    """Write a corpus of ``chunks`` chunks to the folder ``root``, and return the number of documents."""
    words = Words()
    count = chunks // CHUNKS_PER_DOCUMENT
    for number in range(count):
        path = root / source_of(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(_document(words, number)) + "\n", encoding="utf-8")
    return count


def source_of(number: int) -> str:
    """Return the path of a document, relative to the corpus."""
    return f"{number // 10_000:02}/{number // 100 % 100:02}/page-{number:06}.{('md', 'rst')[number % 2]}"


def _document(words: Words, number: int) -> Iterator[str]:
    draw = np.random.default_rng([SEED, number])
    topic = number % _TOPICS
    plain = number % 2
    for part in range(CHUNKS_PER_DOCUMENT):
        title = " ".join(words.sentence(draw, 3, topic)).capitalize()
        if part == 0:
            title = f"{topic_name(topic)} {title}"
        if plain:
            yield from (title, ("-" if part else "=") * len(title), "")
        else:
            yield from (f"{'#' if part == 0 else '##'} {title}", "")
        text = words.sentence(draw, _WORDS, topic)
        for start in range(0, _WORDS, 14):
            yield " ".join(text[start : start + 14]) + ("." if start + 14 == _WORDS else "")
        yield ""


def topic_name(topic: int) -> str:
    """Return the name of a topic, which is one word."""
    return f"Xq{_LETTERS[topic // 26]}{_LETTERS[topic % 26]}"


def queries(count: int) -> list[str]:
    """Return distinct queries, each with a topic's name and five words."""
    words = Words()
    draw = np.random.default_rng([SEED, 0, 1])
    topics = [(7 * number) % _TOPICS for number in range(count)]
    return [f"{topic_name(topic)} {' '.join(words.sentence(draw, 5, topic))}" for topic in topics]


class SyntheticEmbedder:
    """An embedder without a model. A text's first word is a topic, and selects the vector's direction."""

    identity = EmbedderIdentity(
        name="synthetic", model="topics", revision="1", dimension=DIMENSION, max_tokens=512
    )

    def __init__(self) -> None:
        directions = np.random.default_rng(SEED).standard_normal((_TOPICS, DIMENSION), dtype=np.float32)
        self._directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        self._topics = {topic_name(topic): topic for topic in range(_TOPICS)}

    def embed_documents(self, texts: Sequence[str], progress: Progress = no_progress) -> Vectors:
        """Return one unit vector per text, as a float32 array of shape ``(len(texts), 384)``."""
        rows = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
            noise = np.random.Generator(np.random.SFC64(seed)).standard_normal(DIMENSION, dtype=np.float32)
            topic = self._topics.get(text.partition(" ")[0], 0)
            row[:] = self._directions[topic] + _NOISE / DIMENSION**0.5 * noise
        return unit_rows(rows, origin="the synthetic embedder")

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of one text."""
        row: Vectors = self.embed_documents([text])[0]
        return row
