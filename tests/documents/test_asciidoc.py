"""AsciiDoc: sections, blocks and labels with the lines of the raw file."""

from __future__ import annotations

from pathlib import Path

from branchrank.documents.loading import load_corpus
from branchrank.documents.reading import read_document
from branchrank.questions.links import Links

PAGE = """= Teapot
:icons: font

Fill the *kettle* with `cold *water*`.
// a comment
Read <<leaves,about leaves>> first.

[[leaves]]
.Which
[quote]
== Leaves
* black
+
[source,sh]
----
== not a title
----

|===
|tea 2+|minutes
|===

Old titles
~~~~~~~~~~
See xref:clean.adoc#_remove_scale[how to descale].

....
never closed
"""


def test_a_page_has_sections_and_blocks() -> None:
    document = read_document("teapot.adoc", PAGE.encode())
    assert [(s.title, s.level, s.line_start, s.own_line_end, s.labels) for s in document.sections] == [
        ("Teapot", 0, 1, 10, ("_teapot",)),
        ("Leaves", 1, 11, 22, ("_leaves",)),
        ("Old titles", 2, 23, 28, ("_old_titles",)),
    ]
    assert [(b.kind, b.text, b.line_start, b.line_end) for s in document.sections for b in s.blocks] == [
        ("heading", "Teapot", 1, 1),
        ("prose", "Fill the kettle with cold *water*.\n\nRead about leaves first.", 4, 6),
        ("prose", "Which", 9, 9),
        ("heading", "Leaves", 11, 11),
        ("list", "- black", 12, 12),
        ("code", "== not a title", 16, 16),
        ("table", "tea | minutes", 20, 20),
        ("heading", "Old titles", 23, 24),
        ("prose", "See how to descale.", 25, 25),
        ("code", "never closed", 28, 28),
    ]
    assert [note.split(":")[0] for note in document.notes] == ["line 27"]


def test_asc_files_are_asciidoc_unless_they_are_keys_or_signatures(tmp_path: Path) -> None:
    (tmp_path / "ch01.asc").write_text("= Book\n\n== Start\n\nText.\n")
    for kind in ("SIGNATURE", "PUBLIC KEY BLOCK", "SIGNED MESSAGE"):
        name = f"{kind.split()[0]}.asc"
        (tmp_path / name).write_text(
            f"-----BEGIN PGP {kind}-----\n\niQIzBAAB\n=x\n-----END PGP {kind}-----\n"
        )
    documents = load_corpus(tmp_path).documents
    assert [len([b for s in each.sections for b in s.blocks]) for each in documents] == [0, 0, 0, 3]
    assert [len(each.notes) for each in documents] == [1, 1, 1, 0]
    assert [(s.title, s.line_start) for s in documents[3].sections] == [("Book", 1), ("Start", 3)]


def test_references_lead_to_labels_and_generated_ids() -> None:
    page = read_document("teapot.adoc", PAGE.replace(".Which\n", "").encode())
    clean = read_document("clean.adoc", b"= Clean\n\n== Remove scale\nVinegar.\n")
    links = Links([page, clean])
    found = [links.target("teapot.adoc", reference) for reference in page.references]
    assert [(each.source, each.section) for each in found if each] == [("teapot.adoc", 1), ("clean.adoc", 1)]
