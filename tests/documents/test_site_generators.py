"""One small site for each generator in the table of docs/reading-documents.md, read through the library."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from support.worlds import write_pages

from branchrank.documents.document import LEAVES_OUT_FILES
from branchrank.documents.loading import load_corpus
from branchrank.documents.tree_build import build_nodes
from branchrank.questions.links import Links, UnresolvedLink


class Site(NamedTuple):
    """The files of a site, with its pages below ``docs``, and what its page ``page`` becomes.

    ``links`` contains the page and section that each link leads to, or the reason why it leads nowhere.
    ``notes`` contains a part of each note.
    """

    files: dict[str, str]
    page: str
    texts: list[str]
    links: list[tuple[str, str] | str] = []  # noqa: RUF012
    notes: tuple[str, ...] = ()


SITES = {
    "mdBook": Site(
        {
            "docs/SUMMARY.md": "# Summary\n\n- [B](b.md)\n  - [A](a.md)\n- [No](no.md)\n",
            "docs/a.md": "# A\n\n{{#title Other}}\nSee [the b](b.html#part-c).\n\n{{#include x.md}}\n\n"
            "```rust\n{{#rustdoc_include x.rs}}\nx\n```\n",
            "docs/b.md": "# B\n\n## Part C\n",
        },
        "docs/a.md",
        ["A", "See the b.", "x"],
        [("b.md", "Part C")],
        (LEAVES_OUT_FILES, "SUMMARY.md: no document matches 1 of the entries"),
    ),
    "Docusaurus": Site(
        {
            "sidebars.js": "module.exports = items();",
            "docs/a.mdx": "---\ntitle: A\n---\nimport T from '@theme/Tabs';\n\n<T>\n\n"
            "## C {#c}\n\n:::note[Hey]\n\n"
            "The [b](./01-b/d.md#x) and [also b](/docs/b/d), [slug](/s)\n\n:::\n\n</T>\n",
            "docs/01-b/d.md": "---\nslug: /s\n---\n# D\n\n## E {#x}\n",
        },
        "docs/a.mdx",
        ["C", "Hey", "The b and also b, slug"],
        [("01-b/d.md", "E"), ("01-b/d.md", "D"), "unresolved: no such page"],
        ("../sidebars.js: ignored",),
    ),
    "MkDocs": Site(
        {
            "mkdocs.yml": "nav:\n- B: b.md\n- X:\n  - a.md\n  - no.md\n",
            "docs/a.md": '# A { #x }\n\n!!! note "N"\n    n [the b](b.md#y)\n\n=== "T"\n\n'
            "    t\n\n[TOC]\n\n"
            '--8<-- "x.md"\n\n{{ macro() }}\n',
            "docs/b.md": "# B\n\n## C {: #y }\n",
        },
        "docs/a.md",
        ["A", "N", "n the b", "T", "t", "{{ macro() }}"],
        [("b.md", "C")],
        (LEAVES_OUT_FILES, "mkdocs.yml: no document matches 1 of the entries"),
    ),
    "VitePress": Site(
        {
            "docs/a.md": "---\ntitle: A\n---\n[[toc]]\n\n## H <Badge text='new' />\n\n"
            "::: details Click\nThe [b](/b#c)\n"
            ":::\n\n<<< @/x.js\n\n<!--@include: ./y.md-->\n\n<script setup>\nx\n</script>\n",
            "docs/b.md": "# B\n\n## C {#c}\n",
        },
        "docs/a.md",
        ["H", "Click", "The b"],
        [("b.md", "C")],
        (LEAVES_OUT_FILES,),
    ),
    "Hugo": Site(
        {
            "docs/a.md": '+++\ntitle = "A"\n+++\n{{% note %}}\n'
            'The [fn]({{< ref "/fn" >}}) and [perm](/fn/rel-perm/#c)\n'
            '{{% /note %}}\n\n{{< readfile file="x.md" >}}\n',
            "docs/fn/_index.md": "---\ntitle: F\n---\n",
            "docs/fn/Rel Perm.md": "# R\n\n## C\n",
        },
        "docs/a.md",
        ["The fn and perm"],
        [("fn/_index.md", "F"), ("fn/Rel Perm.md", "C")],
        (LEAVES_OUT_FILES,),
    ),
    "DocFX": Site(
        {
            "docs/toc.yml": "- name: A\n  href: a.md\n",
            "docs/a.md": "# A\n\n> [!NOTE]\n> The [b](~/b.md#c) and [uid](xref:b)\n\n"
            "# [T](#tab/t)\n\nt\n\n***\n\n"
            ':::image source="x.png" alt-text="X":::\n\n[!INCLUDE [x](x.md)]\n',
            "docs/b.md": "# B\n\n## C\n",
        },
        "docs/a.md",
        ["A", "The b and uid", "T", "t", "X"],
        [("b.md", "C")],
        ("indexed 2; skipped 1: 1 .yml", LEAVES_OUT_FILES),
    ),
    "Antora": Site(
        {
            "docs/antora.yml": "name: x\n",
            "docs/modules/ROOT/pages/a.adoc": "= A\n\n"
            "The xref:m:b.adoc#c[b] and xref:other::b.adoc[other]\n\n"
            "include::partial$x.adoc[]\n",
            "docs/modules/m/pages/b.adoc": "= B\n\n[#c]\n== C\n\ntext\n",
        },
        "docs/modules/ROOT/pages/a.adoc",
        ["A", "The b and other"],
        [("modules/m/pages/b.adoc", "C"), "unresolved: "],
        ("indexed 2; skipped 1: 1 .yml",),
    ),
    "Sphinx": Site(
        {
            "docs/index.rst": "I\n=\n\n.. toctree::\n\n   a\n   no\n\n"
            "The :ref:`b <lab>` and :doc:`a <a>`.\n\n.. include:: x.txt\n",
            "docs/a.rst": "A\n=\n\n.. _lab:\n\nB\n-\n\n.. note:: N\n",
        },
        "docs/index.rst",
        ["I", "The b and a."],
        [("a.rst", "B"), ("a.rst", "A")],
        ("'no'",),
    ),
    "MyST": Site(
        {
            "docs/index.md": "# I\n\n```{toctree}\na\nno\n```\n\n"
            "The {ref}`b <lab>` and [b](#lab)\n\n:::{note}\nN\n:::\n\n"
            "```{include} x.md\n```\n",
            "docs/a.md": "# A\n\n(lab)=\n## B\n",
        },
        "docs/index.md",
        ["I", "The b and b", "N"],
        [("a.md", "B"), ("a.md", "B")],
        (LEAVES_OUT_FILES, "'no'"),
    ),
    "Jekyll": Site(
        {
            "docs/_posts/2020-01-01-p.md": "---\ntitle: P\n---\n* TOC\n{:toc}\n\n"
            "The [q]({% link q.md %}) and "
            "[q too]({{ site.baseurl }}/q/#b), [perm](/perm/)\n\n{% highlight sh %}\n# x\n"
            "{% endhighlight %}\n"
            "{% include x.html %}\n",
            "docs/q.md": "---\npermalink: /perm/\n---\n# Q\n\n## A\n{: #b}\n",
        },
        "docs/_posts/2020-01-01-p.md",
        ["The q and q too, perm", "# x"],
        [("q.md", "Q"), ("q.md", "A"), "unresolved: no such page"],
        (LEAVES_OUT_FILES,),
    ),
    "Astro": Site(
        {
            "docs/x.astro": "<p>",
            "docs/a.mdx": "---\ntitle: A\ndescription: >\n  D\n  e\n---\n"
            "import { Tabs } from 'x';\n\n<Tabs>\n"
            '<Tab label="X">\nThe [c](/b/#c)\n</Tab>\n</Tabs>\n\n:::tip[T]\nt\n:::\n',
            "docs/b.md": "---\ntitle: B\n---\n## C\n",
        },
        "docs/a.mdx",
        ["D\ne", "The c", "T", "t"],
        [("b.md", "C")],
        ("indexed 2; skipped 1: 1 .astro",),
    ),
}


@pytest.mark.parametrize("name", SITES)
def test_a_site_of_each_generator(name: str, tmp_path: Path) -> None:
    site = SITES[name]
    write_pages(tmp_path, site.files)
    corpus = load_corpus(tmp_path / "docs")
    page = next(each for each in corpus.documents if f"docs/{each.source}" == site.page)
    assert [block.text for section in page.sections for block in section.blocks] == site.texts
    links = Links(corpus.documents)
    for reference, expected in zip(page.references, site.links, strict=True):
        if isinstance(expected, str):
            with pytest.raises(UnresolvedLink, match=expected):
                links.target(page.source, reference)
        else:
            target = links.target(page.source, reference)
            assert target is not None
            assert (target.source, links.section(target).title) == expected
    notes = [*corpus.notes, *build_nodes(corpus.documents, "corpus")[1]]
    assert len(notes) == len(site.notes)
    assert all(part in note for note, part in zip(notes, site.notes, strict=True))
