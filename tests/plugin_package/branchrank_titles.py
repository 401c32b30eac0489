"""A branch kind, an embedder, a reader, a chunker and a measure."""

import re

import numpy as np

from branchrank.plugins import (
    BranchKind,
    BranchResult,
    Definition,
    EmbedderIdentity,
    Findings,
    Heading,
    Reader,
    Scored,
    plain_blocks,
    unit_rows,
)


class TitlesKind(BranchKind):
    """Sections whose titles share at least ``least`` words with the query, without those in ``ignore``."""

    name = "titles"
    units = ("node",)
    ranks_by = "words"
    options = ("least", "ignore")

    def open(self, opening):
        titles = {node.id: words(node.title) for node in opening.index.tree.sections}

        def search(lookup):
            options = lookup.branch.options
            asked = words(lookup.query.text) - frozenset(options.get("ignore", ()))
            found = [
                Scored(key, len(title & asked) / len(title | asked))
                for key, title in titles.items()
                if len(title & asked) >= options.get("least", 1) and key in lookup.sources.hittable
            ]
            return BranchResult(sorted(found, key=lambda entry: (-entry.score, entry.key)))

        return search


def words(text):
    return frozenset(re.findall(r"\w+", text.lower()))


TITLES = TitlesKind()


class LettersEmbedder:
    """How often each letter occurs, as a unit vector."""

    def __init__(self, alphabet):
        self.alphabet = alphabet
        self.identity = EmbedderIdentity(
            name="letters", model=alphabet, dimension=len(alphabet), max_tokens=100_000
        )

    def embed_documents(self, texts):
        counts = [[1 + text.lower().count(letter) for letter in self.alphabet] for text in texts]
        return unit_rows(np.array(counts, dtype=np.float32), origin="letters")

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def open_letters(model, notify):
    return LettersEmbedder(model or "abcdefghijklmnopqrstuvwxyz")


def find_notes(source, lines):
    """Read a file of notes: headings start with asterisks, and all other lines are text."""
    found = Findings()
    text = list(lines)
    for number, line in enumerate(lines, start=1):
        if match := re.match(r"(\*+)\s+(\S.*)", line):
            found.headings.append(Heading(len(match[1]), match[2], number, number))
            text[number - 1] = ""
    found.blocks = plain_blocks(text)
    return found


NOTES = Reader(find_notes)


class LinesChunker:
    """As many whole lines as fit into a chunk."""

    def __init__(self, chunk_tokens, count_tokens):
        self.chunk_tokens = chunk_tokens
        self.count_tokens = count_tokens

    def chunk(self, text):
        lines, size = [], 0
        for line in text.split("\n"):
            tokens = self.count_tokens(line)
            if lines and size + tokens > self.chunk_tokens:
                yield "\n".join(lines)
                lines, size = [], 0
            lines.append(line)
            size += tokens
        yield "\n".join(lines)


def squared_rank(ranking, cutoff, rel):
    """The square of the reciprocal rank of the first relevant hit, or 0 without one."""
    ranks = ranking.relevant_ranks(rel, cutoff)
    return 1 / ranks[0] ** 2 if ranks else 0.0


SRR = Definition(name="SRR", compute=squared_rank)
