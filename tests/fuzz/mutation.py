"""Inputs made from valid ones: a few edits, each drawn by Hypothesis, so that atheris can choose them too."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from fuzz.target import Target

#: Texts and numbers that a file of somebody else may hold where a program expects ordinary ones.
ODD_TEXTS = (
    *r"""null true false "" [] {} "1" [[]] [null] {"":null} -1 0 -0.0 0.5 4294967296 -9223372036854775809
    18446744073709551616 1e308 1e999 -1e999 1e-400 NaN Infinity -Infinity .. . - --help a/../b =1+1 %00
    %2e%2e%2f {{7*7}} </script> " ' ` * ( [ \ a* ^a col:a C:\con /etc/passwd ../../../../etc/passwd
    "\ud800" "\udfff\ud800" "\u0000" "\ud83d\ude00" """.split(),  # noqa: SIM905
    *("", " ", "\0", "\n", "\r\n", "\t", "\x1b[31m", "\x85", "\u2028", "\u202e", "\ufeff", "\ufffe"),
    *("\u0130", "\u017f", "\u212a", "\U0001f469\u200d\U0001f52c", "e\u0301", "' OR 1=1 --", "NEAR(a b)"),
    *("a AND", "x" * 300, "\u6f22" * 50, "9" * 400, "9" * 5_000),
)  # fmt: skip
ODD_BYTES = (
    *(b"\0", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80"),
    *(b"\xf4\x90\x80\x80", b"\r", b"\n", b"\r\n", b"\x0b", b"\x0c", b"\x1c", b"\xc2\x85", b"\xe2\x80\xa8"),
)  # fmt: skip
BRACKETS = (b"[ ]", b'{"a": }', b"( )", b"> ", b"- ", b"* *", b"<b> ")
INDENTS = (b" ", b"\t", b"    ", b"> ", b"- ", b"* ", b"# ", b".. ")
_WORD = re.compile(rb'"[^"\n]*"|[\w.+-]+|[^\w\s]')
_TEXT_EDITS = ("word", "word", "word", "line", "line", "bytes", "bytes", "nest", "encoding", "splice")


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    """A seed of the target after one to three edits; only bytes of binary inputs change."""
    content = draw(st.sampled_from(target.seeds))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(_TEXT_EDITS)) if target.is_text else "bytes"
        content = _edited(draw, kind, content, target)
    return content


def _edited(draw: st.DrawFn, kind: str, content: bytes, target: Target) -> bytes:
    if kind == "word" and (words := list(_WORD.finditer(content))):
        found = words[draw(st.integers(0, len(words) - 1))]
        other = words[draw(st.integers(0, len(words) - 1))][0]
        new = draw(st.sampled_from((*ODD_TEXTS, other, found[0] * 2, found[0] * 100)))
        new = new if isinstance(new, bytes) else new.encode("utf-8", "surrogatepass")
        return content[: found.start()] + new + content[found.end() :]
    if kind == "line":
        return _lines(draw, content)
    if kind == "encoding":
        text = content.decode("utf-8", "replace").replace("\n", draw(st.sampled_from(("\n", "\r\n", "\r"))))
        name = draw(st.sampled_from(("utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252")))
        return text.encode(name, "replace")
    at = draw(st.integers(0, len(content)))
    end = min(len(content), at + draw(st.sampled_from((0, 1, 2, 4, 16, 200))))
    if kind == "nest":
        opening, _, closing = draw(st.sampled_from(BRACKETS)).partition(b" ")
        depth = draw(st.sampled_from((3, 40, 600, 5_000)))
        return content[:at] + opening * depth + content[at:end] + closing * depth + content[end:]
    if kind == "splice":
        new = draw(st.sampled_from(target.seeds))[draw(st.integers(0, 200)) :]
    else:
        part = content[at:end]
        new = draw(st.sampled_from((*ODD_BYTES, b"", part * 2, part * 100, bytes(each ^ 1 for each in part))))
        if draw(st.integers(0, 5)) == 0:
            return content[:at]
    return content[:at] + new + content[end:]


def _lines(draw: st.DrawFn, content: bytes) -> bytes:
    """Delete, repeat, swap, indent or cut lines."""
    lines = content.split(b"\n")
    at, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    what = draw(st.sampled_from(("delete", "copy", "swap", "indent", "cut", "repeat", "strip")))
    if what == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at : at + 1] = {
            "delete": [],
            "copy": [lines[other], lines[at]],
            "indent": [draw(st.sampled_from(INDENTS)) + lines[at]],
            "cut": [lines[at][: len(lines[at]) // 2]],
            "repeat": [lines[at]] * draw(st.sampled_from((3, 40))),
            "strip": [lines[at].lstrip()],
        }[what]
    return b"\n".join(lines)
