"""Readers of documents: any bytes have sections that partition the lines, and chunks inside them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from documents.invariants import problems_of
from support.pdfs import pdf
from support.worlds import PAGES

from branchrank.documents.loading import load_corpus
from branchrank.documents.pageindex_json import encode_document, export_document, import_document
from branchrank.documents.reading import READERS, read_document
from branchrank.documents.tree_build import build_nodes
from branchrank.documents.tree_nodes import check_nodes
from branchrank.questions.mining import mine_questions
from fuzz.target import Target, require, seeds

MARKDOWN = b"""---
title: Teapot
tags: [tea, pot]
---

# Teapot {#pot}

A *kettle* with a [link](guide/brewing.md#errors "title") and `code`.
A second line.[^1]

## Setext

Heading
-------

- one
  - two

    three
1. four

> quoted
> ```python
> open("x")
> ```

| a | b |
|---|---|
| 1 | `2` |

<div class="x"><b>bold</b>
</div>

:::{note}
A directive
:::

![image](x.png) <https://example.org> &amp; \\* ~~gone~~

[^1]: a note
[ref]: http://example.org

```{code-block} php
:name: x

echo 1;
```

~~~
last
"""
MDX = b"""import X from './x'

export const a = 1

# Title {/* comment */}

<Tabs items={['a', 'b']}>
  <Tab value="a">

  Text {1 + 1} and `{x}`

  </Tab>
</Tabs>

## Next <Badge text="new" />

{a ? <b>x</b> : null}
"""
RST = b"""=====
Title
=====

.. _label:

Section
-------

A ``literal``, a :ref:`link <label>`, |sub| and [1]_ and `out <http://x.y>`_.

.. toctree::
   :maxdepth: 2

   install
   Guide <guide/brewing>

.. note:: one

   two

   * three
   * four

     five

.. code-block:: php

    echo 1;

+---+---+
| a | b |
+===+===+
| 1 | 2 |
+---+---+

=== ===
c   d
=== ===
3   4
=== ===

:field: value

term
  definition ::

    literal

.. |sub| replace:: text
.. [1] note
.. _out: http://example.org
.. include:: /etc/passwd
.. raw:: html

   <b>x</b>

.. csv-table:: t
   :file: /etc/passwd

>>> doctest
1

..
  comment

Deep
~~~~

Deeper
^^^^^^
end
"""
ENTRY = b"A title\nFirst line.\n\nSecond paragraph.\n"
HTML = b"""<!doctype html><meta charset="latin1"><title>Tea</title>
<nav><a href=a.html>menu</a></nav>
<main><h1 id=tea>Tea<a class=headerlink href="#tea">\xc2\xb6</a></h1>
<p>A <b>kettle</b> &amp; a <a href="b.html#x">link</a><br>more <img alt='pot' src=x></p>
<ul><li>one<li><p>two</p></ul><h2>Two</h2><p>text</p>
<table><tr><th>a<td>b</tr></table><pre>code
  <span>more</span></pre><aside>note</aside></main><footer>end</footer>
"""
ASCIIDOC = b"""= Tea
:icon: font

Fill the *kettle* with `water`, see xref:b.adoc#x[the page] or <<leaves,below>>.

[[leaves]]
== Leaves
* one
** two
+
[source,sh]
----
brew --now
----

|===
|a 2+|b
|===

Old
~~~
term:: text
image::x.png[pot]
////
hidden
////
++++
<b>raw</b>
++++
"""
NOTEBOOK = b"""{"nbformat": 4, "metadata": {}, "cells": [
 {"cell_type": "markdown", "source": ["# Tea\\n", "\\n", "A [link](b.md)"]},
 {"cell_type": "code", "outputs": [{"text": ["x"]}], "source": "a = 1\\nb = \\"\\u00e9\\""},
 {"source": ["## Two\\n"], "cell_type": "markdown"}]}
"""
PDF = pdf([["Tea", "Fill the kettle."], [], ["Pot (2)"]], [(0, "Tea", 0), (1, "Pot", 2)], title="T")
PYTHON = b'''"""Tea."""
import os

# about brew
@cache
async def brew(leaves: int = 4, *, hot=True) -> None:
    """Brew.

    Wait.
    """
    def pour(): return f"{leaves!r}"
    return [pour for _ in range(3) if hot]
HOT = {"a": (1, 2)}
class Pot(Vessel):
    size = 4
    @property
    def lid(self):
        pass
'''
TYPESCRIPT = b"""/** Tea. */
import { a } from 'b'
@dec()
export abstract class Pot<T extends A> {
  #size = 1; brew(): void { return `${this.size}` }
  lid = () => <b>1</b>
}
export const f = async (x: number) => { if (x < 1) { return /a/ } }, g = function () {}
namespace N { interface I { a?: string } enum E { A } type T = string | null }
"""
CPP = b"""#ifndef A
#define A(x) ((x) + 1)
/// doc
template <typename T, int N>
class Pot : public Vessel {
 public:
  Pot() = default;
  virtual int lid(int a) const { return a << 1; }
};
namespace a::b { typedef struct { int x; } point_t; enum class E { A = 'a' }; }
static int *&f(void (*g)(int), ...) { return a ? R"(x)" : nullptr; }
#endif
"""
RUST = b"""//! Tea.
#[derive(Debug)]
pub struct Pot<'a, T: Vessel> { size: &'a T }
impl<'a, T> fmt::Display for Pot<'a, T> where T: Vessel {
    /// doc
    pub fn lid(&self) -> Result<(), E> { Ok(self.size.map(|x| x + 1)?) }
    const X: i32 = 0x1f;
}
macro_rules! m { ($a:expr) => { r#"x"# } }
mod inner { pub enum E { A(u8), B { c: char } } trait T { fn g(); } }
"""
NAVIGATION = {
    "mkdocs.yml": b"site_name: !ENV x\nnav:\n  - a.md\n  - Two: [b.md, {Three: &c c.md}, *c]\n",
    "sidebars.js": b"// x\nexport default {a: ['a', {type:'category', items: [\"b\", {Old: ['c']}],}]};\n",
    "sidebars.json": b'{"docs": ["a", {"type": "category", "link": {"id": "b"}, "items": ["c"]}]}',
    "SUMMARY.md": b"# Summary\n\n- [A](a.md)\n    - [B](<b.md>)\n1. C\n   * [C](c.md#x)\n",
}


def navigation(name: str, content: bytes) -> None:
    """Read the tree of a corpus of three pages with a navigation file."""
    with TemporaryDirectory() as folder:
        root = Path(folder, "docs")
        root.mkdir()
        for page in ("a.md", "b.md", "c.md"):
            (root / page).write_text("text\n")
        (root if name.endswith(".md") else root.parent).joinpath(name).write_bytes(content)
        corpus = load_corpus(root)
        nodes, _ = build_nodes(corpus.documents, "corpus")
        lines = {document.source: document.line_count for document in corpus.documents}
        problems = check_nodes(nodes, lines)
        require(not problems, "; ".join(problems[:3]))


def read(source: str, content: bytes) -> None:
    """Read one file and mine it."""
    problems = problems_of(source, content, target_tokens=12, scan=False)
    require(not problems, "; ".join(problems[:3]))
    mine_questions([read_document(source, content)])


def read_any(content: bytes) -> None:
    """Read one file with the reader that the first byte chooses."""
    suffixes = [*READERS.builtin]
    read(f"guide/a{suffixes[(content[:1] or b' ')[0] % len(suffixes)]}", content[1:])


_PAGES = tuple(text.encode() for text in PAGES.values())


def pageindex(content: bytes) -> None:
    """Import a PageIndex tree of a fixed file; export it again."""
    imported = import_document(content, "a.md", MARKDOWN)
    nodes, _ = build_nodes([imported.document], "corpus")
    problems = check_nodes(nodes, {"a.md": imported.document.line_count})
    require(not problems, "; ".join(problems[:3]))
    again = import_document(encode_document(export_document(imported.document, MARKDOWN)), "a.md", MARKDOWN)
    spans = [
        [(each.line_start, each.line_end, each.level) for each in document.sections]
        for document in (imported.document, again.document)
    ]
    require(spans[0] == spans[1], f"{spans[0]} became {spans[1]}")


def _trees() -> tuple[bytes, ...]:
    whole = export_document(read_document("a.md", MARKDOWN), MARKDOWN)
    return encode_document(whole), msgspec.json.encode({"doc_name": "a", "line_count": 9, "structure": []})


TARGETS = (
    Target("markdown", partial(read, "guide/a.md"), seeds(MARKDOWN, *_PAGES)),
    Target("mdx", partial(read, "guide/a.mdx"), seeds(MDX, MARKDOWN, *_PAGES)),
    Target("rst", partial(read, "guide/a.rst"), seeds(RST, *_PAGES)),
    Target("txt", partial(read, "guide/a.txt"), seeds(RST, *_PAGES)),
    Target("html", partial(read, "guide/a.html"), seeds(HTML, *_PAGES)),
    Target("asciidoc", partial(read, "guide/a.adoc"), seeds(ASCIIDOC, *_PAGES)),
    Target("pdf", partial(read, "guide/a.pdf"), seeds(PDF), is_text=False),
    Target("notebook", partial(read, "guide/a.ipynb"), seeds(NOTEBOOK)),
    *(
        Target(f"code-{suffix}", partial(read, f"guide/a.{suffix}"), seeds(content))
        for suffix, content in (("py", PYTHON), ("tsx", TYPESCRIPT), ("cpp", CPP), ("rs", RUST))
    ),
    *(
        Target(f"navigation-{name}", partial(navigation, name), seeds(content))
        for name, content in NAVIGATION.items()
    ),
    Target("any-reader", read_any, seeds(*(bytes([n]) + MARKDOWN for n in range(len(READERS.builtin))))),
    Target("beir-entry", partial(read, "a.beir"), seeds(ENTRY, MARKDOWN)),
    Target("pageindex-json", pageindex, _trees),
)
