"""HTML: sections with the lines of the raw file, and only the content of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchrank.documents.document import Document
from branchrank.documents.loading import discover
from branchrank.documents.reading import document_lines, read_document
from branchrank.questions.links import Links

PAGE = """<!doctype html>
<html><head><title>Brewing - Teapot</title><style>p { }</style></head>
<body>
<nav><ul><li><a href="index.html">Home</a></ul></nav>
<main>
<h1>Brewing<a class="anchor" href="#brewing">¶</a></h1>
<p>Fill the <b>ket</b>tle.
Then <a href="clean.html#scale">remove the scale</a>.</p>
<section id="leaves">
<h2>Leaves &amp; bags</h2>
<ul>
<li><p>black</p></li>
<li>green <img src="x.png" alt="leaf"></li>
</ul>
<table>
<tr><th>tea</th><th>minutes</th></tr>
<tr><td><p>black</p></td><td>4</td></tr>
</table>
</section>
<h3 id="code">Code</h3>
<pre><span>def</span> brew():

    pour()
</pre>
<aside>A note.</aside>
</main>
<footer>Imprint</footer>
</body></html>
"""


def read(text: str) -> Document:
    return read_document("brewing.html", text.encode())


def blocks(document: Document) -> list[tuple[str, str, int, int]]:
    return [(b.kind, b.text, b.line_start, b.line_end) for s in document.sections for b in s.blocks]


def test_a_page_has_the_sections_and_blocks_of_its_main_content() -> None:
    document = read(PAGE)
    assert [(s.title, s.level, s.line_start, s.own_line_end, s.labels) for s in document.sections] == [
        ("Brewing", 0, 1, 8, ()),
        ("Leaves & bags", 1, 9, 19, ("leaves",)),
        ("Code", 2, 20, 28, ("code",)),
    ]
    assert blocks(document) == [
        ("heading", "Brewing", 6, 6),
        ("prose", "Fill the kettle.\nThen remove the scale.", 7, 8),
        ("heading", "Leaves & bags", 9, 10),
        ("list", "- black", 12, 12),
        ("list", "- green leaf", 13, 13),
        ("table", "tea | minutes", 16, 16),
        ("table", "black | 4", 17, 17),
        ("heading", "Code", 20, 20),
        ("code", "def brew():\n\n    pour()", 21, 23),
        ("prose", "A note.", 25, 25),
    ]
    assert document.notes == ()


def test_links_lead_to_the_sections_that_their_anchors_name() -> None:
    other = read_document(
        "clean.html", b"<h1>Clean</h1>\n<a name='scale'></a><h2>Descale it</h2>\n<p>Vinegar."
    )
    document = read(PAGE)
    (reference,) = document.references
    assert (reference.text, reference.line) == ("remove the scale", 8)
    target = Links([document, other]).target("brewing.html", reference)
    assert target is not None
    assert (target.source, target.section) == ("clean.html", 1)


def test_the_text_of_a_link_can_continue_on_the_next_line() -> None:
    document = read('<h1>A</h1>\n<p>There are <a href="clean.html">a\nfew <i>cave</i>ats</a>.</p>')
    assert [each.text for each in document.references] == ["a few caveats"]


def test_headings_and_text_on_one_line_share_it() -> None:
    document = read("<h1>A</h1><p>one</p>\n<p>two</p><h2>B</h2><p>three</p>\n<h2>C</h2><p>four\nfive</p>")
    assert [(s.title, s.line_start) for s in document.sections] == [("A", 1), ("C", 3)]
    assert blocks(document) == [
        ("prose", "A one", 1, 1),
        ("prose", "two B three", 2, 2),
        ("prose", "C four", 3, 3),
        ("prose", "five", 4, 4),
    ]
    (note,) = document.notes
    assert note.startswith("line 2: 1 heading ")


def test_a_page_without_main_content_keeps_all_but_navigation() -> None:
    document = read("<header>Site</header><nav>Menu</nav>\n<h1>A</h1>\n<nav>never closed\n<p>text")
    assert [text for _, text, _, _ in blocks(document)] == ["A", "never closed", "text"]
    assert [b[1] for b in blocks(read("<main> </main>\n<article><header>B</header></article>\nC"))] == ["B"]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("é".encode(), "é"),
        (b'<meta charset="iso-8859-5">\xd0', "а"),
        (b'<meta http-equiv=x content="text/html; charset=windows-1252">\x80', "€"),
        (b'<meta charset="unicode_escape">\xe9', "é"),
        (b"\xe9", "é"),
    ],
)
def test_the_declared_charset_decodes_what_is_not_utf_8(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "a.html").write_bytes(content)
    assert document_lines(tmp_path, "a.html")[0].endswith(word)
    assert blocks(read_document("a.html", content))[0][1] == word


def test_templates_and_assets_are_no_documents(tmp_path: Path) -> None:
    for name in ("a.html", "_static/b.html", "_notes/c.md", "d.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    found = discover(tmp_path)
    assert [file.source for file in found.files] == ["_notes/c.md", "a.html"]
    (note,) = found.notes
    assert note.startswith("indexed 2; skipped 2: 1 .html (below a folder")
    assert note.endswith(", 1 .png")
