"""Find HTML and JSX tags in linear time, even if many tags are never closed.

A tag starts with ``<`` and a name (such as ``<div``) and ends with ``>``. Between the name and the ``>``, a
tag can contain quoted strings and any characters except ``<`` and ``>``. A JSX tag can also contain
``{expressions}`` with up to three levels of braces. A regular expression would start again at each ``<``, and
could search to the end of the text each time. When a search reaches a string or expression that an earlier
search has already passed, :class:`TagFinder` reuses the result of the earlier search, so no part of the text
is searched more than twice.
"""

from __future__ import annotations

import re

_HTML_RUN = re.compile(r"""[^"'<>]*+""")
_JSX_RUN = re.compile(r"""[^"'{}<>]*+""")
_BRACE = re.compile(r"[{}]")
_EXPRESSION_DEPTH = 3

#: Match the start of HTML tags (``<div``), component tags (``<CamelCase``) and MDX tags (not ``<a@b.c>``).
HTML_TAG = re.compile(r"</?([A-Za-z][\w:-]*+)")
COMPONENT_TAG = re.compile(r"</?[A-Z](?:(?![a-z])[\w.])*+[a-z][\w.]*+(?=[\s/>])")
JSX_TAG = re.compile(r"</?(?:(?=>)|(?![a-z]+://)(?![^\s<>]+@)[A-Za-z_$][\w.$:-]*+(?=[\s/>]))")


class TagFinder:
    """Finds the tags in ``text``. Tags can contain JSX expressions unless ``opening`` is ``HTML_TAG``."""

    def __init__(self, text: str, opening: re.Pattern[str]) -> None:
        self.text = text
        self._opening = opening
        self._expressions = opening is not HTML_TAG
        self._run = _JSX_RUN if self._expressions else _HTML_RUN
        self._last_quote = {quote: text.rfind(quote) for quote in "\"'"}
        #: Maps positions inside a tag to the end of the tag, or to 0 if the tag is never closed.
        self._ends: dict[int, int] = {}
        self._closing: dict[int, int] | None = None

    def end(self, position: int) -> int:
        """Return the position after the tag that begins at ``position``, or 0 if there is no tag."""
        opening = self._opening.match(self.text, position)
        if opening is None:
            return 0
        position = opening.end()
        if opening[0] in ("<", "</"):  # a fragment of MDX
            return position + 1
        passed: list[int] = []
        end = self._ends.get(position)
        while end is None:
            passed.append(position)
            position, closed = self._pass(position)
            end = position if closed else self._ends.get(position)
        self._ends.update(dict.fromkeys(passed, end))
        return end

    def _pass(self, position: int) -> tuple[int, bool]:
        """Move from a position in a tag past the next string, expression or ``>``, whichever comes first.

        Return the new position, and whether the tag ends at the new position. If the tag is never closed, the
        returned position is 0.
        """
        run = self._run.match(self.text, position)
        at = run.end() if run else position
        match self.text[at : at + 1]:
            case ">":
                return at + 1, True
            case ("'" | '"') as quote if at < self._last_quote[quote]:
                return self.text.index(quote, at + 1) + 1, False
            case "{" if at in (closing := self._expression_ends()):
                return closing[at] + 1, False
        return 0, True

    def _expression_ends(self) -> dict[int, int]:
        """Map opening braces to closing braces. Expressions with too many levels of braces are omitted."""
        if self._closing is None:
            self._closing = {}
            opened: list[list[int]] = []  # the position of each open brace, and its number of levels
            for brace in _BRACE.finditer(self.text):
                if brace[0] == "{":
                    opened.append([brace.start(), 1])
                elif opened:
                    start, height = opened.pop()
                    if height <= _EXPRESSION_DEPTH:
                        self._closing[start] = brace.start()
                    if opened:
                        opened[-1][1] = max(opened[-1][1], height + 1)
        return self._closing
