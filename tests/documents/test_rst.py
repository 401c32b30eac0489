"""The RST reader: readable text, exact lines, and what stands outside the text."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from hypothesis import given
from hypothesis import strategies as st

from branchrank.documents.document import Document, Reference
from branchrank.documents.reading import read_document
from branchrank.questions.links import Links, UnresolvedLink


def read(text: str) -> Document:
    return read_document("page.rst", dedent(text).lstrip("\n").encode())


def texts(text: str) -> list[str]:
    return [block.text for section in read(text).sections for block in section.blocks]


def test_labels_and_overlines_belong_to_their_heading() -> None:
    document = read(
        """
        Page
        ====

        Intro.

        .. _first:
        .. index:: x
        .. _second:

        ~~~~~
        Part!
        ~~~~~
        Text.
        """
    )
    page, part = document.sections
    assert (page.title, page.own_line_end) == ("Page", 5)
    assert (part.title, part.line_start, part.labels) == ("Part!", 6, ("first", "second"))
    assert [(block.kind, block.text, block.line_start, block.line_end) for block in part.blocks] == [
        ("heading", "Part!", 6, 12),
        ("prose", "Text.", 13, 13),
    ]
    assert [(label.name, label.line) for label in document.labels] == [("first", 6), ("second", 8)]


def test_an_overline_is_the_first_line_of_its_section() -> None:
    page, part = read("Page\n====\n\nIntro.\n\n~~~~\nPart\n~~~~\n\nText.\n").sections
    assert (page.own_line_end, part.title, part.line_start) == (5, "Part", 6)


def test_a_label_before_text_belongs_to_no_heading() -> None:
    section = read("A\n=\n\n.. _x:\n\ntext\n\nB\n-\n").sections[1]
    assert (section.labels, section.line_start) == ((), 8)


def test_a_directive_that_names_the_heading_below_it_belongs_to_it() -> None:
    document = read(
        """
        A
        =

        .. setting:: DEBUG

        ``DEBUG``
        ---------

        .. rubric:: Other words

        C
        -
        """
    )
    _, debug, last = document.sections
    assert (debug.line_start, last.line_start) == (4, 11)
    assert [block.text for block in debug.blocks] == ["DEBUG", "Other words"]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (":ref:`the text <label>`", "the text"),
        (":doc:`/the/page`", "/the/page"),
        (":anything:goes:`text <target>` on", "text on"),
        (":class:`Name\\\\Space\\\\Thing`", "Name\\Space\\Thing"),
        (":class:`Name\\Space\\Thing`", "Name\\Space\\Thing"),
        (":class:`~package.module.Thing`", "package.module.Thing"),
        ("pre\\ :method:`x`\\ s", "prexs"),
        ("**bo**\\ ld and *it*", "bold and it"),
        ("``a <b>`` and :code:`c <d>`", "a <b> and c <d>"),
        ("`name <https://example.org/a b>`_ and `name`_, one_", "name and name, one"),
        ("see [1]_ and [CIT]_", "see [1] and [CIT]"),
        ("an |abbr| here", "an abbreviation here"),
        ("an unclosed ``literal and *star", "an unclosed ``literal and *star"),
        ("a \\*star\\* and C:\\dir", "a *star* and C:\\dir"),
        ("`text <alias_>`_ x", "text x"),
        (":role:`<only>`", "only"),
    ],
)
def test_inline_markup_reads_as_text(markup: str, text: str) -> None:
    assert texts(f"{markup}\n\n.. |abbr| replace:: abbreviation\n") == [text]


def test_a_role_over_two_lines_keeps_its_words_and_lines() -> None:
    (block,) = read("Look at :ref:`the\nlong text\n<label>` for\nmore.\n").sections[0].blocks
    assert " ".join(block.text.split()) == "Look at the long text for more."
    assert block.text.count("\n") == 3
    assert block.text.endswith("\nmore.")


def test_cross_references_with_text_of_their_own_are_kept_with_their_line() -> None:
    document = read(
        """
        One :ref:`bare` and
        :ref:`two words <Some-Label>`.

        * :doc:`a page </dir/page>`
        * `near <other.html#part>`_, `far <https://example.org>`_, `named`_

        .. _named: near.html
        """
    )
    assert document.references == (
        Reference(role="ref", text="two words", target="Some-Label", line=2),
        Reference(role="doc", text="a page", target="/dir/page", line=4),
        Reference(role="link", text="near", target="other.html#part", line=5),
        Reference(role="link", text="named", target="near.html", line=5),
    )


def test_code_is_verbatim_without_the_surrounding_markup() -> None:
    document = read(
        """
        Like so::

            a = `b` * c

              d

        .. code-block:: php
            :linenos:
            :caption: src/x.php

            // :ref:`x <y>`

        .. highlight:: php

        >>> 1 + 1
        2

        Quoted::

        > one
        > two
        after
        """
    )
    assert [
        (block.kind, block.text, block.line_start, block.line_end) for block in document.sections[0].blocks
    ] == [
        ("prose", "Like so:", 1, 1),
        ("code", "a = `b` * c\n\n  d", 3, 5),
        ("prose", "src/x.php", 9, 9),
        ("code", "// :ref:`x <y>`", 11, 11),
        ("code", ">>> 1 + 1\n2", 15, 16),
        ("prose", "Quoted:", 18, 18),
        ("code", "> one\n> two", 20, 21),
        ("prose", "after", 22, 22),
    ]


def test_directives_of_any_project_are_read_for_their_text() -> None:
    assert texts(
        """
        .. unheard-of:: The Title
           :option: noise
           :caption: The caption

           Body *text*.

           .. deeper::

              Nested `text <x>`_.

        .. note:: Short note
           that goes on.

        .. versionadded:: 5.1

           It came.

        .. method:: find(name)
           :module: noise
        .. image:: /a/path.png
           :alt: A picture
        .. figure:: /a/path.png

           The legend
        .. math:: e = mc
        """
    ) == [
        "The Title",
        "The caption",
        "Body text.",
        "Nested text.",
        "Short note\nthat goes on.",
        "New in version 5.1",
        "It came.",
        "find(name)",
        "A picture",
        "The legend",
        "e = mc",
    ]


def test_a_field_of_several_words_is_text_and_no_option() -> None:
    assert texts(".. function:: f(x)\n   :module: noise\n   :param x: what it is\n") == [
        "f(x)",
        "param x: what it is",
    ]


def test_invisible_markup_adds_no_text() -> None:
    assert texts(
        """
        :orphan:

        .. a comment
           goes on

           and on
        ..
           hidden too
        .. _target: https://example.org
        .. |x| image:: y.png
        .. include:: /etc/passwd
        .. index:: single: word
        .. meta::
           :description: words
        __ https://example.org

        ----

        ..

           A quote after an empty comment.
        """
    ) == ["A quote after an empty comment."]


def test_lists_definitions_fields_and_footnotes_keep_their_words() -> None:
    assert texts(
        """
        * one
          goes on
        * two

          1. deep
          #. deeper

        term
            its *definition*

        :Author name: Someone
            else

        .. [1] A footnote
           goes on.

        | a line
        | block

        -x, --long  what it does
        """
    ) == [
        "* one\ngoes on",
        "* two",
        "1. deep",
        "#. deeper",
        "term",
        "its definition",
        "Author name: Someone\nelse",
        "[1] A footnote\ngoes on.",
        "a line\nblock",
        "-x, --long  what it does",
    ]


def test_tables_read_row_by_row() -> None:
    document = read(
        """
        +-----------+---------+
        | Head one  | Head    |
        |           | two     |
        +===========+=========+
        | :ref:`a   | long    |
        | b <x>`    | text    |
        +-----------+         |
        | below     | end     |
        +-----------+---------+

        =====  ======
        Key    Value
        =====  ======
        ``a``  first
               line
        b      *x*
        =====  ======
        """
    )
    assert [
        (block.kind, block.text, block.line_start, block.line_end) for block in document.sections[0].blocks
    ] == [
        ("table", "Head one | Head two", 2, 3),
        ("table", "a b | long text end | below", 5, 8),
        ("table", "Key | Value", 12, 12),
        ("table", "a | first line", 14, 15),
        ("table", "b | x", 16, 16),
    ]


def test_a_row_with_an_empty_first_cell_is_read() -> None:
    assert texts("=== === ===\n    x   y\n=== === ===\na   b   c\n=== === ===\n") == ["x | y", "a | b | c"]


def test_list_and_csv_tables_are_read() -> None:
    assert texts(
        """
        .. list-table:: Title
           :header-rows: 1

           * - one
             - two

        .. csv-table:: Other
           :header: "a", "b"

           "c", ":doc:`text <d>`"
        """
    ) == ["Title", "* - one", "- two", "Other", '"a", "b"', '"c", "text"']


def test_toctree_entries_are_raw_and_their_titles_are_text() -> None:
    document = read(
        """
        .. toctree::
            :maxdepth: 1
            :caption: Guides

            intro
            Own title <deep/page>
            all/*
        """
    )
    assert document.toctree == ("intro", "deep/page", "all/*")
    assert [block.text for block in document.sections[0].blocks] == ["Guides", "Own title"]


@pytest.mark.parametrize(
    "text",
    [
        "a\nb\n=\n",  # an underline below the second line of a paragraph
        "long title\n==\n",  # too short an underline
        "- item\n======\n",  # a list item
        "    quoted\n    ======\n",  # indented
        "=====\n\ntext\n",  # a transition
        "::\n\n    Title\n    =====\n",  # code
    ],
)
def test_text_that_looks_like_a_heading_is_not_a_section(text: str) -> None:
    assert [section.title for section in read_document("page.rst", text.encode()).sections] == ["page"]


def test_ambiguous_headings_are_recognized_from_their_neighbors() -> None:
    titles = [s.title for s in read("1. Intro\n========\n\nx\n\nA. Part\n-------\n\nunder\n====\n").sections]
    assert titles == ["page", "1. Intro", "A. Part", "under"]


def test_a_title_of_inconsistent_level_is_kept() -> None:
    document = read("A\n=\n\nB\n-\n\nC\n~\n\nD\n=\n\nE\n~\n")
    assert [(s.title, s.level) for s in document.sections[1:]] == [
        ("A", 1),
        ("B", 2),
        ("C", 3),
        ("D", 1),
        ("E", 2),
    ]


@given(
    st.lists(
        st.sampled_from(
            ["First\n=====", "Second\n------", "Third\n~~~~~", "text", "- item", ".. _l:", "x::\n\n   code"]
        ),
        max_size=12,
    )
)
def test_headings_are_those_that_docutils_finds(parts: list[str]) -> None:
    text = "\n\n".join(parts) + "\n"
    overrides: dict[str, Any] = {"report_level": 5, "halt_level": 5, "doctitle_xform": False}
    tree = publish_doctree(text, settings_overrides=overrides)
    expected = [section[0].astext() for section in tree.findall(nodes.section)]
    blocks = [block for section in read_document("a.rst", text.encode()).sections for block in section.blocks]
    found = [block.text for block in blocks if block.kind == "heading"]
    # docutils drops a heading that skips a level, and all the text below it; the reader keeps both.
    assert [title for title in found if title in expected] == found or len(found) > len(expected)


RAW = """Tea
===

.. raw:: html

   <div class="x">
     <p>Fill the <b>kettle</b>.</p>

     <script>boil()</script>
   </div>

.. raw:: latex

   \\newpage{}

.. |br| raw:: html

   <br />

.. |star| raw:: html

   <b>Star</b> tea

.. |pi| raw:: latex

   $\\pi$

.. role:: raw-html(raw)
   :format: html

One |br| two |pi| :raw-html:`<b>bold</b>`, |star|.
"""


def test_raw_html_is_its_text() -> None:
    (section,) = read_document("a.rst", RAW.encode()).sections
    assert [(b.kind, b.text, b.line_start, b.line_end) for b in section.blocks] == [
        ("heading", "Tea", 1, 2),
        ("prose", "Fill the kettle.", 7, 7),
        ("prose", "One  two pi bold, Star tea.", 31, 31),
    ]


def test_references_by_name_lead_to_titles_and_labels_of_the_file() -> None:
    text = "Tea\n===\n\n`a <Steeping time_>`__ `b <STEEPING\ntime_>`_ `Steeping time`_ `c <pot_>`__\n"
    text += "`d <nowhere_>`__ `e <Docs_>`__ `f <#steeping-time>`__\n\n.. _Docs: docs.html\n\n"
    text += "Steeping time\n-------------\n\n.. _pot:\n\n"
    document = read_document("a.rst", f"{text}C++ & co.\n---------\n\n`g <C++ & co._>`__\n".encode())
    links = Links([document, read_document("docs.rst", b"Docs\n====\n")])
    *references, lost = sorted(document.references, key=lambda each: each.text == "d")
    with pytest.raises(UnresolvedLink, match="no such label"):
        links.target("a.rst", lost)
    assert [(each.text, links.target("a.rst", each)) for each in references] == [
        ("a", ("a.rst", 1)),
        ("b", ("a.rst", 1)),
        ("Steeping time", ("a.rst", 1)),
        ("c", ("a.rst", 2)),
        ("e", ("docs.rst", 0)),
        ("f", ("a.rst", 1)),
        ("g", ("a.rst", 2)),
    ]


def test_unicode_line_separators_do_not_shift_line_numbers() -> None:
    document = read_document("a.rst", "one\u2028two\x0bthree\n\nB\n-\n\nC\n~\n".encode())
    assert document.sections[-1].line_start == 6


def test_directives_that_read_files_insert_nothing(tmp_path: Any) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("canary")
    text = "\n\n".join(
        [
            f".. include:: {secret}",
            f".. literalinclude:: {secret}",
            f".. csv-table:: t\n   :file: {secret}",
            f".. raw:: html\n   :file: {secret}",
            f".. include:: {secret}\n   :literal:",
        ]
    )
    document = read_document("a.rst", text.encode())
    assert "canary" not in repr(document)
