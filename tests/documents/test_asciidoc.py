"""AsciiDoc: sections, blocks and labels with the lines of the raw file."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents.invariants import problems_of

from branchrank.documents.loading import load_corpus
from branchrank.documents.reading import read_document
from branchrank.questions.links import Links, UnresolvedLink

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
        ("Teapot", 0, 1, 10, ()),
        ("Leaves", 1, 11, 22, ("leaves",)),
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


#: Pages, and the line, the title and the id of each section that Asciidoctor 2.0.18 finds in them.
TITLES = {
    "setext": (
        '= Doc\n\n"git bisect" overview\n---------------------\n\nText.\n\nStarting a bisection\n'
        "--------------------\n\nText.\n\n`commit`\n~~~~~~~~\n\nText.\n\n(a) b\n-----\nab\n--\n",
        [
            (3, '"git bisect" overview', "_git_bisect_overview"),
            (8, "Starting a bisection", "_starting_a_bisection"),
            (13, "commit", "_commit"),
            (18, "(a) b", "_a_b"),
            (20, "ab", "_ab"),
        ],
    ),
    "metadata": (
        "= Doc\n\n[source]\n--------\n== code\n--------\n// remark\n---------\n== code\n---------\n\n"
        "== Tea\n.Caption\n[#pot.role%open]\n=== Pot\n:a: b\n--------\n== code\n--------\n",
        [(12, "Tea", "_tea"), (15, "Pot", "pot")],
    ),
    "paragraph": (
        "= Doc\n\ncore.bare::\n\ta repository is assumed to be bare (bare\n= true), while others\n"
        "== are not.\n\nText\n<<<\n# is text\n\n* item\n"
        "[NOTE]\n== item\n+\n== item\n\n== Title\nText\n== text\n----\ncode\n"
        "----\n== Next ==\nimage::pot.png[]\n### Last\n",
        [(18, "Title", "_title"), (24, "Next", "_next"), (26, "Last", "_last")],
    ),
    "blocks": (
        "= Doc\n\n====\n== text\n\nText\n-----\n== code\n-----\n\n--\n== text\n--\n\n[discrete]\n== Text\n"
        "====\n[source]\n--\n====\n--\n\n== Tea\n\n|===\n|a\n\n== cell\n|===\n```sh\n== code\n```\n"
        "== Pot\n\n****\n== never\n",
        [(23, "Tea", "_tea"), (33, "Pot", "_pot")],
    ),
    "ids": (
        "= Example\n\n== What's new/old?\n\n== Example\n\n== Example\n\n[#custom.role]\n== With role\n\n"
        "[discrete]\n== Float\n\n== Float\n\n[[a]]\n== Example\n\n== Example\n\n== Tail [[tail]]\n\n"
        "== *Be* `a.b` -- c... d->e (C)\n\n== Über 漢字\n\n== [[lead]]Lead\n",
        [
            (3, "What's new/old?", "_whats_newold"),
            (5, "Example", "_example"),
            (7, "Example", "_example_2"),
            (10, "With role", "custom"),
            (15, "Float", "_float_2"),
            (18, "Example", "a"),
            (20, "Example", "_example_3"),
            (22, "Tail", "tail"),
            (24, "Be a.b -- c... d->e (C)", "_be_a_bc_de"),
            (26, "Über 漢字", "_über_漢字"),
            (28, "Lead", "_lead"),
        ],
    ),
    "separator": (
        "= Doc\n:idprefix:\n:idseparator: -\n\n== What's new_old?\n\n== A.B -- c\n\n== A.B -- c\n\n"
        ":!idprefix:\n:idseparator!:\n\n== A b\n",
        [
            (5, "What's new_old?", "whats-new_old"),
            (7, "A.B -- c", "a-bc"),
            (9, "A.B -- c", "a-bc-2"),
            (14, "A b", "_a_b"),
        ],
    ),
}


@pytest.mark.parametrize("name", TITLES)
def test_section_titles_and_ids_are_those_of_asciidoctor(name: str) -> None:
    text, expected = TITLES[name]
    sections = read_document("a.adoc", text.encode()).sections[1:]
    lines = [each.line_start + (text.split("\n")[each.line_start - 1][0] == "[") for each in sections]
    found = [(line, s.title, s.labels[-1]) for line, s in zip(lines, sections, strict=True)]
    assert found == expected
    assert problems_of("a.adoc", text.encode(), target_tokens=12, scan=False) == []


def test_as_many_sections_as_asciidoctor_finds() -> None:
    documents = [read_document("a.adoc", text.encode()) for text, _ in TITLES.values()]
    assert sum(len(document.sections) for document in documents) == 33


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("linkgit:git-add[1], linkgit:git-commit[1], man:ls[1p]", "git-add(1), git-commit(1), ls(1p)"),
        (
            "See gh-issue:42[the bug] and javadoc:org.tea.Pot[].",
            "See gh-issue:42[the bug] and javadoc:org.tea.Pot.",
        ),
        (
            "menu:File[Save] or menu:View[Zoom > Reset] or menu:Edit[]",
            "File > Save or View > Zoom > Reset or Edit",
        ),
        ("(((git, add)))The ((index)) `((x))` indexterm:[a, b]f(y)", "The index x f(y)"),
        ("kbd:[Ctrl+T] btn:[OK] pass:q[x] footnote:id[note]", "Ctrl+T OK x note"),
        ("https://tea.example/a[Tea] mailto:a@tea.example[us] link:a.html[A,role=x]", "Tea us A"),
    ],
)
def test_an_unknown_macro_keeps_its_target(text: str, expected: str) -> None:
    (block,) = read_document("a.adoc", text.encode()).sections[0].blocks
    assert block.text == expected


def resolved(pages: dict[str, str]) -> list[tuple[str, int] | str]:
    """The page and section that each cross-reference leads to, or why it is not resolved."""
    documents = [read_document(source, text.encode()) for source, text in pages.items()]
    links = Links(documents)
    found: list[tuple[str, int] | str] = []
    for document in documents:
        for reference in document.references:
            try:
                target = links.target(document.source, reference)
            except UnresolvedLink as error:
                found.append(str(error))
            else:
                found.append((target.source, target.section) if target else "inner")
    return found


ANTORA = {
    "ROOT/pages/algorithms/bfs.adoc": "xref:concepts/graph.adoc#_concept[a], xref:ref:api.adoc[b], "
    "xref:page$concepts/graph.adoc[c], xref:./dfs.adoc[d], xref:dfs.adoc[e], xref:nowhere.adoc[f], "
    "xref:concepts/graph.adoc#nowhere[g], xref:other::index.adoc[h], xref:other:ref:api.adoc[i], "
    "xref:2.0@ref:api.adoc[j], xref:attachment$a.zip[k], xref:{page}.adoc[l], xref:https://a.example/b.adoc[m]\n",
    "ROOT/pages/algorithms/dfs.adoc": "= DFS\n",
    "ROOT/pages/concepts/graph.adoc": "= Graph\n\n== Concept\n\nText.\n",
    "ref/pages/api.adoc": "= API\n\nxref:ROOT:concepts/graph.adoc[a]\n",
}


@pytest.mark.parametrize("above", ["modules/", "docs/modules/"])
def test_xrefs_of_antora_are_resolved_or_counted(above: str) -> None:
    graph, api = f"{above}ROOT/pages/concepts/graph.adoc", f"{above}ref/pages/api.adoc"
    assert resolved({f"{above}{source}": text for source, text in ANTORA.items()}) == [
        (graph, 1),
        (api, 0),
        (graph, 0),
        (f"{above}ROOT/pages/algorithms/dfs.adoc", 0),
        "unresolved: no such page",
        "unresolved: no such page",
        "unresolved: no such label",
        "unresolved: other component",
        "unresolved: other component",
        "unresolved: other component",
        "unresolved: not a document",
        "unresolved: variable",
        (graph, 0),
    ]


@pytest.mark.parametrize("root", ["", "ROOT/", "ROOT/pages/"])
def test_xrefs_of_antora_in_a_part_of_its_folders(root: str) -> None:
    pages = {source.removeprefix(root): text for source, text in ANTORA.items() if source.startswith(root)}
    assert resolved(pages)[0] == ("ROOT/pages/concepts/graph.adoc".removeprefix(root), 1)


def test_references_by_title_and_to_spans() -> None:
    text = "<<About tea,a>> <<_about_tea,b>> <<pot.lid,c>> <<spot,d>> <<Nowhere,e>>\n\n"
    text += "[#spot.red]#here#\n\n== About tea\n\n[#pot.lid]\n== Lid\n\n[id=pot.lid]\n== Pot\n"
    assert resolved({"a.adoc": text}) == [
        ("a.adoc", 1),
        ("a.adoc", 1),
        ("a.adoc", 3),
        "inner",
        "unresolved: no such label",
    ]


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
