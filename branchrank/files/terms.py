"""Split a question into the terms that grep searches for.

1. A quoted string (in double quotes, backticks, or single quotes that are not apostrophes) is one term.
2. Each remaining token that looks like code is a term of kind ``identifier``. Examples are ``camelCase``,
   ``snake_case``, ``a.b``, ``A::b``, ``a->b``, ``--flag``, ``@name``, ``path/to`` and ``v2``.
3. Each remaining word that is not a stop word is a term. If a question has only stop words, the stop words
   are the terms.
4. At most :data:`TERM_LIMIT` terms are returned, in the question's order. If several terms differ only in
   case, the first of these terms is returned.

Quoted strings and identifiers match anywhere in a line. A term of kind ``word`` matches only at the start of
a word in the line (``form`` finds ``forms`` but not ``platform``). Matching ignores case for all terms.
"""

from __future__ import annotations

import re
from typing import Literal

from branchrank.records import Record
from branchrank.stores.stop_words import STOP_WORDS

TERM_LIMIT = 64
TERM_CHARACTERS = 200

_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)")
_TOKEN = re.compile(r"(?:->|[^\s()\[\]{}<>\"'`“”‘’,;!?|])+")
_IDENTIFIER = re.compile(r"[_.\\/:@$#=+*%&~^]|->|^--?\w|[^\W\d_]\d|\d[^\W\d_]|[^\W\d_A-Z][A-Z]|[A-Z]{2}[a-z]")
_WORD = re.compile(r"\w(?:.*\w)?")


class Term(Record, frozen=True, kw_only=True):
    """A string to search for. A term of kind ``word`` matches only at the start of a word."""

    text: str
    kind: Literal["quoted", "identifier", "word"]

    @property
    def pattern(self) -> str:
        """A regular expression for the term, which ripgrep and :mod:`re` can both match in linear time."""
        literal = re.escape(self.text)
        return rf"\b{literal}" if self.kind == "word" else literal


def extract_terms(query: str) -> tuple[Term, ...]:
    """Return the terms in a query. The result is empty only if the query is blank."""
    readable = query.encode("utf-8", "ignore").decode("utf-8")
    text = "".join(character if character >= " " else "\n" for character in readable)
    found: list[tuple[int, Term]] = []

    def keep_quoted(match: re.Match[str]) -> str:
        literal = next(group for group in match.groups() if group is not None).strip()
        if literal:
            found.append((match.start(), Term(text=literal[:TERM_CHARACTERS], kind="quoted")))
        return " " * (match.end() - match.start())

    rest = _QUOTED.sub(keep_quoted, text)
    stopped: list[tuple[int, Term]] = []
    for match in _TOKEN.finditer(rest):
        token = match.group().rstrip(".:-").lstrip(":")[:TERM_CHARACTERS]
        word = _WORD.search(token)
        if word is None:
            continue
        if _IDENTIFIER.search(token):
            term = Term(text=token, kind="identifier")
        else:
            term = Term(text=word.group(), kind="word")
        stop = term.kind == "word" and (len(term.text) < 2 or term.text.lower() in STOP_WORDS)
        (stopped if stop else found).append((match.start(), term))
    if not found:
        found = stopped or [(0, Term(text=token[:TERM_CHARACTERS], kind="quoted")) for token in text.split()]
    distinct: dict[str, Term] = {}
    for _, term in sorted(found, key=lambda item: item[0]):
        distinct.setdefault(term.text.lower(), term)
    return tuple(distinct.values())[:TERM_LIMIT]
