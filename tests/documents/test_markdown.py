"""The Markdown reader: what a person reads, on which lines, under which headings."""

from __future__ import annotations

import pytest

from branchrank.documents.document import LEAVES_OUT_FILES, READ_AS_MDX, Block, Document
from branchrank.documents.markdown_text import MAX_INLINE
from branchrank.documents.reading import read_document


def read(text: str, source: str = "guide/page.md") -> Document:
    return read_document(source, text.encode())


def blocks(text: str, source: str = "guide/page.md") -> list[tuple[str, str, int, int]]:
    return [
        (block.kind, block.text, block.line_start, block.line_end)
        for section in read(text, source).sections
        for block in section.blocks
    ]


def texts(text: str, source: str = "guide/page.md") -> list[str]:
    return [text for _, text, _, _ in blocks(text, source)]


def spans(document: Document) -> list[tuple[str, int, int, int]]:
    return [
        (section.id, section.line_start, section.own_line_end, section.line_end)
        for section in document.sections
    ]


# -- headings and sections


def test_a_lone_top_heading_is_the_page_and_others_nest_below_it() -> None:
    document = read("intro\n\n# Page *title*\n\ntext\n\n## One\n\n### Deep\n\n## One\nlast\n")
    assert document.title == "Page title"
    assert spans(document) == [
        ("guide/page.md", 1, 6, 12),
        ("guide/page.md#one", 7, 8, 10),
        ("guide/page.md#one/deep", 9, 10, 10),
        ("guide/page.md#one~2", 11, 12, 12),
    ]
    assert [section.title for section in document.sections] == ["Page title", "One", "Deep", "One"]


def test_a_page_with_several_top_headings_is_named_after_its_file() -> None:
    document = read("# A\n\n# B\n")
    assert document.title == "page"
    assert spans(document) == [
        ("guide/page.md", 1, 0, 3),
        ("guide/page.md#a", 1, 2, 2),
        ("guide/page.md#b", 3, 3, 3),
    ]


def test_setext_headings_own_all_their_lines() -> None:
    document = read("Two\nlines\n=====\n\ntext\n\nSub\n---\nmore\n")
    assert document.title == "Two lines"
    assert [(b[0], b[2], b[3]) for b in blocks("Two\nlines\n=====\n\ntext\n\nSub\n---\nmore\n")] == [
        ("heading", 1, 3),
        ("prose", 5, 5),
        ("heading", 7, 8),
        ("prose", 9, 9),
    ]


def test_headings_in_quotes_and_lists_and_code_are_not_sections() -> None:
    document = read("> # quoted\n\n- # listed\n\n```\n# comment\n```\n\n    # indented\n")
    assert len(document.sections) == 1
    assert texts("> # quoted\n\n- # listed\n") == ["quoted", "- listed"]


@pytest.mark.parametrize("front", ["---\ntitle: 'The: title'\n---\n", '+++\ntitle = "The: title"\n+++\n'])
def test_front_matter_names_a_page_without_a_heading_of_its_own(front: str) -> None:
    assert read(f"{front}\n## A\n\n## B\n").title == "The: title"
    assert read(f"{front}\n# Heading\n\n## B\n").title == "Heading"
    assert len(read(f"{front}\n## A\n\n## B\n").sections) == 3
    assert texts(f"{front}body\n") == ["body"]


def test_only_the_description_of_front_matter_is_text() -> None:
    text = "---\ntitle: T\ndescription: What it is about.\nrelated:\n  title: no\n---\n\nbody\n"
    assert blocks(text) == [("prose", "What it is about.", 3, 3), ("prose", "body", 8, 8)]


@pytest.mark.parametrize(
    ("value", "title"),
    [
        (" >-\n  Deploying to\n  production\n", "Deploying to production"),
        (" |\n  Two\n\n  parts\n", "Two parts"),
        ("\n  On the\n  next line", "On the next line"),
        (' "Caf\\u00e9 \\"x\\"" # comment', 'Café "x"'),
        (" 'It''s\n  long'", "It's long"),
        (" 1.10", "1.10"),
        (" &anchor Anchored", "Anchored"),
        (" Rust: an overview", "Rust: an overview"),
        (" `code` and *more*", "`code` and *more*"),
        (" [a] b", "[a] b"),
        (" ~", "page"),
        (" [a, b]", "page"),
        ("\n  key: b", "page"),
        (" " + "[" * 9000, "[" * 9000),
    ],
    ids=lambda value: value[:20],
)
def test_values_of_front_matter_are_yaml_or_as_written(value: str, title: str) -> None:
    text = f"---\nbroken: [\ntitle:{value}\nnested:\n  title: no\n...\nBody.\n"
    assert read(text).title == title
    assert texts(text) == ["Body."]


@pytest.mark.parametrize(
    ("front", "block"),
    [
        ("---\nx: y\ndescription: |\n  How to.\n\n  Five.\nz: a\n---\n", ("prose", "How to.\n\nFive.", 4, 6)),
        ("---\ndescription: >+\n  How\n  to.\n\n---\n", ("prose", "How\nto.", 3, 4)),
        ("---\ndescription:\n  How\n  to.\n---\n", ("prose", "How\nto.", 3, 4)),
        ('---\ndescription: "How\n  to."\n---\n', ("prose", "How\nto.", 2, 3)),
        ('+++\ndescription = """\nHow\nto.\n"""\nx = 1\n+++\n', ("prose", "How\nto.", 3, 4)),
        ('+++\ndescription = "How \\"to\\"."\n+++\n', ("prose", 'How "to".', 2, 2)),
        ('+++\ndescription = "Top."\n[x]\ntitle = "In a table"\n+++\n', ("prose", "Top.", 2, 2)),
    ],
)
def test_a_description_of_several_lines_keeps_its_lines(front: str, block: tuple[str, str, int, int]) -> None:
    last = front.count("\n") + 1
    assert blocks(f"{front}Body.\n") == [block, ("prose", "Body.", last, last)]


def test_unclosed_front_matter_is_text() -> None:
    assert texts("---\ntitle: T\n\nbody\n") == ["title: T", "body"]


def test_labels_are_slugs_explicit_ids_targets_and_anchors() -> None:
    text = '(lab)=\n# Hi, *there* & you {#top}\n\n<a id="mid"></a>\n\n## Twice\n\n## Twice {/* #mdx-id */}\n'
    document = read(text)
    assert document.sections[0].labels == ("lab", "top", "hi-there--you")
    assert document.sections[0].title == "Hi, there & you"
    assert [(label.name, label.line) for label in document.labels] == [
        ("lab", 1),
        ("hi-there--you", 2),
        ("top", 2),
        ("mid", 4),
        ("twice", 6),
        ("mdx-id", 8),
        ("twice-1", 8),
    ]


def test_a_target_without_a_following_heading_is_only_a_label() -> None:
    document = read("(lab)=\ntext\n\n# A\n\n## B\n")
    assert [label.name for label in document.labels if label.line == 1] == ["lab"]
    assert document.sections[1].labels == ("b",)


@pytest.mark.parametrize("suffix", ["md", "mdx"])
@pytest.mark.parametrize(
    ("above", "heading"),
    [
        ('<a name="x"></a>\n', "## B"),
        ("<A NAME=x></A>\n\n", "## B"),
        ('<a id="x" />\n\n', "## B"),
        ('<a name="x"></a>\n<a id="y"></a>\n\n', "B\n-"),
        ('<span id="x"></span>\n\n(y)=\n', "## B"),
        ("", '## <a name="x"></a>B'),
        ("", '## B <span id="x"></span>'),
        ("", '## <a href="#x" id="x">B</a> {#y}'),
    ],
)
def test_ids_of_html_tags_above_or_in_a_heading_are_its_labels(above: str, heading: str, suffix: str) -> None:
    text = f"# A\n\ntext <b id='no'>b</b>\n{above}{heading}\n\nend\n"
    section = read(text, f"a.{suffix}").sections[1]
    assert section.title == "B"
    assert set(section.labels) == {"x", "b"} | {"y"} & set(text)
    assert section.line_start == 4
    assert [(block.kind, block.text) for block in section.blocks] == [("heading", "B"), ("prose", "end")]


@pytest.mark.parametrize("mark", ["{: #", "{#"])
def test_an_attribute_list_below_a_heading_belongs_to_it_and_one_above_to_the_heading_below(
    mark: str,
) -> None:
    text = "# A\n{: #x}\n\n{: #y}\n## B\n{: #z .c}\n\n## C\n\ntext\n{: #t}\n\n## D\n"
    document = read(text.replace("{: #", mark))
    assert [set(section.labels) for section in document.sections] == [
        {"a", "x"},
        {"b", "y", "z"},
        {"c"},
        {"d"},
    ]


@pytest.mark.parametrize(
    "above",
    [
        '<a name="x"></a>\n\ntext\n',
        '<a name="x">text</a>\n',
        '<div id="x">\ntext\n</div>\n\n',
        '<a id="x"></a>\n\n- i\n',
    ],
)
def test_ids_of_html_tags_above_text_are_not_labels_of_the_heading_below(above: str) -> None:
    document = read(f"# A\n\n{above}## B\n")
    assert document.sections[1].labels == ("b",)
    assert ("x", 3) in [(label.name, label.line) for label in document.labels]


# -- text as a person reads it


_BASE64 = "aGVsbG8/IHdvcmxk+MTIzNDU2Nzg5" * 10


@pytest.mark.parametrize(
    ("markdown", "readable"),
    [
        (f"![Shot](data:image/png;base64,{_BASE64 * 50}==)", ["Shot"]),
        (f"see [a *b*](data:text/csv,{'a%2Cb' * 4000}) end", ["see a b end"]),
        (f"![Shot][s]\n\n[s]: <data:image/png;base64,{_BASE64}>", ["Shot"]),
        (f'a <img src="data:image/gif;base64,{_BASE64}"> b', ["a   b"]),
        (f'```json\n{{"certificate": "{_BASE64}"}}\n```', ['{"certificate": ""}']),
        (f"key {_BASE64}= end", ["key  end"]),
        (f"text {_BASE64[:200]}", [f"text {_BASE64[:200]}"]),
        ("a" * 300 + " " + "path/To1/" * 30, ["a" * 300 + " " + "path/To1/" * 30]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_encoded_data_is_no_text(markdown: str, readable: list[str]) -> None:
    assert texts(markdown) == readable


@pytest.mark.parametrize("source", ["a.rst", "a.adoc", "a.text", "a.html"])
def test_encoded_data_is_no_text_in_other_formats(source: str) -> None:
    document = read(f"Title\n\nkey {_BASE64}\n", source)
    assert _BASE64[:50] not in str(document.sections)
    assert "key" in str(document.sections)


@pytest.mark.parametrize("indent", ["    ", "  ", ""])
def test_the_text_of_a_footnote_starts_on_the_next_line(indent: str) -> None:
    text = f"a[^1]\n\n[^1]:\n{indent}The [text](b.md).\n\n[^2]: end\n"
    assert texts(text) == ["a", "The text.", "end"]
    assert read(text).notes == ()
    assert [(reference.target, reference.line) for reference in read(text).references] == [("b.md", 4)]


@pytest.mark.parametrize(
    ("markdown", "readable"),
    [
        ("a *b* __c__ ~~d~~ `e *f*` g", "a b c d e *f* g"),
        ("[text *x*](url 'title') [ref][r] [r] <https://a.b>\n\n[r]: url", "text x ref r https://a.b"),
        ("![alt `text`](a.png)", "alt text"),
        (r"\*not\* &amp; &lt;b&gt;", "*not* & <b>"),
        ("sub<sub>script</sub> and a<br>break", "subscript and a break"),
        ("a <!-- hidden --> b", "a  b"),
        ("{ref}`Title <label>` {py:class}`Name`", "Title Name"),
        ("a[^1]\n\n[^1]:", "a"),
        ("a [^unknown] b", "a [^unknown] b"),
    ],
)
def test_inline_markup(markdown: str, readable: str) -> None:
    assert texts(markdown)[0] == readable


def test_the_nth_line_of_text_is_the_nth_line_of_the_span() -> None:
    text = "one `code\nspan` two\\\nthree <b\nclass='x'>four</b>\n  five\n"
    assert blocks(text) == [("prose", "one code\nspan two\nthree\nfour\nfive", 1, 5)]


def test_lists_are_read_item_by_item() -> None:
    text = "- one\n  more\n- two\n\n  para\n\n  1. a\n  7. b\n\n      code\n"
    assert blocks(text) == [
        ("list", "- one\nmore", 1, 2),
        ("list", "- two", 3, 3),
        ("list", "para", 5, 5),
        ("list", "1. a", 7, 7),
        ("list", "7. b", 8, 8),
        ("list", "code", 10, 10),
    ]


def test_code_is_verbatim_and_without_its_fence() -> None:
    text = "```js title='x'\n\n  a *b*\n\n# c\n\n```\n\n    d\n      e\n"
    assert blocks(text) == [("code", "  a *b*\n\n# c", 3, 5), ("code", "d\n  e", 9, 10)]


def test_tables_are_read_row_by_row() -> None:
    text = "| a | `b` |\n|---|:-:|\n| 1 | *2* |\n| 3 | |\n"
    assert blocks(text) == [("table", "a | b", 1, 1), ("table", "1 | 2", 3, 3), ("table", "3", 4, 4)]


def test_html_blocks_lose_their_tags_scripts_and_comments() -> None:
    text = (
        "<div>\nliteral *x* <b>q</b>&amp;\n<script>\nno\n</script>\n<td>a</td><td>c</td>\n</div>\n\n"
        "<!-- no\n\nno -->\n"
    )
    assert texts(text) == ["literal *x* q&\n\n\n\na c"]


def test_quotes_and_alerts() -> None:
    assert texts("> [!NOTE]\n> read\n> > on\n") == ["read", "on"]


# -- what documentation generators add


@pytest.mark.parametrize(
    ("markdown", "readable"),
    [
        (":::note[A *title*]\ntext\n:::\nafter", ["A title", "text", "after"]),
        (":::{warning} Title\n:class: x\ntext\n:::", ["Title", "text"]),
        ("::: tip\ntext\n:::", ["text"]),
        ('!!! warning "Title"\n    text\n\n    more', ["Title", "text", "more"]),
        ('!!! note ""\n    text', ["text"]),
        ("!!! tip big one\n    text", ["Tip", "text"]),
        ("!!! wow this is cool\n\n??? why not\ntext", ["!!! wow this is cool", "??? why not\ntext"]),
        ('??? note inline end "Say *x*"\n    text\nafter', ["Say x", "text", "after"]),
        ('???+ "Title"\n\n    text', ["Title", "text"]),
        ("!!! tip inline end\n    text\n\n\n    more", ["Tip", "text", "more"]),
        ("!!!\n\n===", ["!!!", "==="]),
        ("/// note | A *title*\n    type: x\n\ntext\n///\nafter", ["A title", "text", "after"]),
        ("//// tab | A\n/// html | div.x\ntext\n///\n////", ["A", "text"]),
        ("/// Adds one.\n//x", ["/// Adds one.\n//x"]),
        ("```{note} Title\n:class: x\n\n*text*\n```", ["Title", "text"]),
        ("````{note}\n```{tip}\ninner\n```\n````", ["inner"]),
        ("```{code-block} python\nx = 1\n```", ["x = 1"]),
        ("```{figure} a.png\n:alt: x\ncaption\n```", ["caption"]),
        ("```{image} a.png\n:alt: x\n```\n\n:::{image} a.png\n:alt: x\n:::\nafter", ["after"]),
    ],
)
def test_admonitions_and_directives(markdown: str, readable: list[str]) -> None:
    assert texts(markdown) == readable


def test_content_tabs_are_containers_also_nested_and_in_lists() -> None:
    text = (
        '# Install\n=== "pip `x`"\n\n    Read the [guide](a.md).\n\n    ``` sh\n    a\n\n\n    b\n    ```\n\n'
        '===! "conda"\n    !!! note ""\n\n        ~~~\n        c\n        ~~~\n\n        === "deep"\n\n'
        '            d\n\n1.  one\n\n    === "item"\n\n        | e |\n        |---|\n'
    )
    assert blocks(text) == [
        ("heading", "Install", 1, 1),
        ("prose", "pip x", 2, 2),
        ("prose", "Read the guide.", 4, 4),
        ("code", "a\n\n\nb", 7, 10),
        ("prose", "conda", 13, 13),
        ("code", "c", 17, 17),
        ("prose", "deep", 20, 20),
        ("prose", "d", 22, 22),
        ("list", "1. one", 24, 24),
        ("list", "item", 26, 26),
        ("table", "e", 28, 28),
    ]
    document = read(text)
    assert document.notes == ()
    assert [(each.text, each.target, each.line) for each in document.references] == [("guide", "a.md", 4)]


def test_a_heading_in_a_content_tab_starts_a_section_and_one_in_an_admonition_does_not() -> None:
    text = (
        '=== "a"\n    ## One { #one-a }\n\n    === "b"\n\n        ### Two\n\n'
        "    !!! note\n\n        # Three\n\n## Four"
    )
    document = read(text)
    assert [(each.title, each.line_start, each.labels) for each in document.sections[1:]] == [
        ("One", 2, ("one-a", "one")),
        ("Two", 6, ("two",)),
        ("Four", 12, ("four",)),
    ]
    assert texts(text)[-3:] == ["Note", "Three", "Four"]


@pytest.mark.parametrize("fence", ["```", ":::"])
def test_a_toctree_lists_documents_and_adds_no_text(fence: str) -> None:
    document = read(f"# A\n\n{fence}{{toctree}}\n:maxdepth: 1\n\none\nTwo <two>\nsub/*\n{fence}\n")
    assert document.toctree == ("one", "Two <two>", "sub/*")
    assert texts(f"{fence}{{toctree}}\none\n{fence}\n") == []


def test_mdx_keeps_the_content_of_components() -> None:
    text = (
        "import A from 'a'\nimport {\n\n  B,\n} from 'b'\n\nexport const meta = {\n  x: 1,\n}\n\n# Title\n\n"
        "<Tabs items={['a > b', `c`]}\n  style={{ d: 1 }}>\n    <Tab>\n\n    ## Inside\n\n    text *x*{' '}\n"
        "    </Tab>\n"
        "</Tabs>\n\n{/* hidden\n\n   hidden */}\n\n"
        '<!-- hidden\n\n-->\nA <Link href="/a">link</Link>, `<Code>` and {value}.\n'
    )
    document = read(text, "a.mdx")
    assert [section.title for section in document.sections] == ["Title", "Inside"]
    assert texts(text, "a.mdx") == ["Title", "Inside", "text x", "A link, <Code> and {value}."]


def test_mdx_comments_are_found_anywhere() -> None:
    assert texts("{/* a */}\none\n\n{/* b\n*/}\n\n<!-- c\n-->\n{/* d\n\ntwo\n", "a.mdx") == [
        "one",
        "{/* d",
        "two",
    ]


@pytest.mark.parametrize("suffix", ["md", "mdx"])
def test_a_component_over_several_lines_keeps_the_lines_apart(suffix: str) -> None:
    text = "one <Tab\n  a='b'> two\nthree\n<Tabs\n  items={['>', '<']}\n>\n  four\n</Tabs>\n"
    assert blocks(text, f"a.{suffix}") == [("prose", "one\ntwo\nthree", 1, 3), ("prose", "four", 7, 7)]


@pytest.mark.parametrize(
    "sign",
    [
        "import Tabs from '@theme/Tabs';",
        'import \'it"s.css\'\nimport React, {useState} from "react"',
        "import {\n  A,\n} from 'b'",
        "export const toc = [\n  1,\n];",
        "export default function Page() {}",
        "export default ({children}) => children;",
        "export { a } from 'b'",
        "{/* hidden */}",
        "## Part {/*part*/}",
        "## Part {/* #part */}",
        "<Tabs>\n\n</Tabs>",
        "<div style={{ a: 1 }}>\n\n</div>",
        '<p className="a">\n\n</p>',
    ],
)
def test_markdown_with_lines_that_only_mdx_has_is_read_as_mdx(sign: str) -> None:
    document = read(f"---\ntitle: T\n---\n{sign}\n\n<Tab>\n\n    ### In\n\n    tab\n\n  </Tab>\n")
    assert [
        block.text for section in document.sections for block in section.blocks if block.text != "Part"
    ] == [
        "In",
        "tab",
    ]
    assert [label.name for label in document.labels] == (["part"] if "Part" in sign else []) + ["in"]
    assert document.notes == (READ_AS_MDX,)


@pytest.mark.parametrize("suffix", ["md", "mdx"])
@pytest.mark.parametrize("end", ["</Note>", "</A.Note></Tabs>", "<Line />", "<Tabs\n  a={1}\n><Tab>"])
def test_a_rule_after_a_component_tag_is_no_heading(end: str, suffix: str) -> None:
    text = f"# T\n\n<Note>\nIn a *note*.\n\n{end}\n---\n\n## Next\n\n</Note>\n"
    assert texts(text, f"a.{suffix}") == ["T", "In a note.", "Next"]
    assert [section.title for section in read(text, f"a.{suffix}").sections] == ["T", "Next"]


@pytest.mark.parametrize(
    "text",
    [
        "```js\nimport a from 'b'\n\n{/* c */}\n```\n\n    code",
        "~~~~\n~~~\n</Tabs>\n~~~~\n\n    code",
        "- ``` x\n  </Tabs>\n  ```\n\n```{/* `c`\n\n    code",
        "    import a from 'b'\n\n    </Tabs>",
        "You can\nexport function calls and\nimport 'data'\n\n    code",
        "import os\n\nimport a thing from 'b' and use it\n\n    code",
        "# {/} and `{/*a*/}`\n\n<a href='?q={x}'>b</a>\n\n    code",
        "<script setup>\nimport A from 'a'\n</script>\n\n<A>\n\n    code\n\n</Card>",
        '<Card :a="1">\n\n    code\n\n</Card>',
    ],
)
def test_other_markdown_is_not_read_as_mdx(text: str) -> None:
    assert blocks(text)[-1][0] == "code"
    assert read(text).notes == ()


def test_components_in_plain_markdown_keep_their_content() -> None:
    text = "<AppOnly>\n## Inside\ntext *x*\n</AppOnly>\n\n<Image\n  style={{ a: 1 }}\n/>\n"
    assert texts(text) == ["Inside", "text x"]


# -- markup of site generators


@pytest.mark.parametrize(
    ("markdown", "readable"),
    [
        ('{{< tabs name="x" >}}\n{{% tab name="Bash" %}}\nRun *it*.\n{{% /tab %}}\n{{</tabs>}}', ["Run it."]),
        ('{{< figure\n  src="x.png"\n\n  alt="y"\n>}}\nText', ["Text"]),
        ('Since {{< version "1" >}} it *is* {{% x %}}so.', ["Since  it is so."]),
        (
            "{%- tabs %}\n{% tab title='x' -%}\n## A\n{% endtab %}\n\nAn {% if a %}item{% endif %}.",
            ["A", "An item."],
        ),
        ("- one\n  {{< note >}}\n  two\n  {{< /note >}}\n- three", ["- one", "two", "- three"]),
        ("a {{/* hidden */}}b\n\n{{- /* hidden\n\ntoo */ -}}", ["a b"]),
        ("{{< highlight sh >}}\n# *code*\n{{< /highlight >}}\nText", ["# *code*", "Text"]),
        ("{% highlight ruby linenos %}\n# code\n\n  x\n{% endhighlight %}\nText", ["# code\n\n  x", "Text"]),
        ("{% comment %}\nhidden\n\n# A\n{% endcomment %}\nText", ["Text"]),
        ("`{{< a >}}` {{</* b */>}} {{ page.title }}", ["{{< a >}} {{</* b */>}} {{ page.title }}"]),
        ("```\n{{< a >}}\n```", ["{{< a >}}"]),
        (':::image type="x" source="a/b.png" alt-text="The portal":::', ["The portal"]),
        (':::image source="b.png" alt-text="Short":::\nLong.\n:::image-end:::', ["Short", "Long."]),
        ("{{< highlight go >}}\nx := 1\n{{< / highlight >}}\nText", ["x := 1", "Text"]),
        ("{{< highlight go >}}\na/highlight\n{{< /highlight >}}\nText", ["a/highlight", "Text"]),
        ("{% highlight py %}\nendhighlight = 1\n{% endhighlight %}\nText", ["endhighlight = 1", "Text"]),
        (
            ":::row:::\n   :::column:::\n      Text\n\n      - a\n   :::column-end:::\n:::row-end:::",
            ["Text", "- a"],
        ),
        (':::row:::\n:::column span="2":::\nText\n:::column-end:::\n:::row-end:::', ["Text"]),
        ('::: moniker range=">=x"\nText\n::: moniker-end\n:::zone pivot="a"', ["Text"]),
        (
            'The :::no-loc text="Save"::: and :::image source="c.svg"::: [!UICONTROL Open] keys',
            ["The Save and  Open keys"],
        ),
        ('> [!div class="next"]\n> [Go](b.md)\n\n> [!NOTE]\n> A *b*.\n\n> [!tip] C', ["Go", "A b.", "C"]),
        ("# [One](#tab/one)\n\nA\n\n# [Two](#tab/two/x)\n\nB\n\n***\n", ["One", "A", "Two", "B"]),
        ("* TOC\n{:toc}\n\nText", ["Text"]),
        ("[TOC]\n\n[[toc]]\n\n[[_TOC_]]\n\nText", ["Text"]),
        ("{{#title My page}}\n# A", ["A"]),
    ],
)
def test_markup_of_site_generators_is_no_text(markdown: str, readable: list[str]) -> None:
    document = read(markdown)
    assert [block.text.strip() for section in document.sections for block in section.blocks] == readable
    assert document.notes == ()
    assert "#tab" not in str(document.references)


@pytest.mark.parametrize(
    "include",
    [
        "[!INCLUDE [name](includes/x.md)]",
        "[!INCLUDE[](x.md)]",
        "[!code-csharp[Main](x.cs?range=1-4)]",
        ':::code language="x" source="~/x.cs":::',
        '{{% include "x.md" %}}',
        '{{< readfile file="x.md" >}}',
        "{% include x.html a=b %}",
        "{% include_relative x.md %}",
        "{% data reusables.x %}",
        "{{#include x.md:2:}}",
        "```rust\n{{#rustdoc_include ../x.rs:here}}\n```",
        '--8<-- "x.md"',
        '```py\n--8<-- "x.py:4:8"\n```',
        "<<< @/x.js{2}",
        "<!--@include: ./x.md-->",
        "```{include} x.md\n:start-line: 2\n```",
        "```{literalinclude} x.py\n```",
        ":::{include} x.md\n:::",
    ],
)
def test_inclusions_are_left_out_with_a_note(include: str) -> None:
    document = read(f"# A\n\ntext\n\n{include}\n\nmore\n")
    assert [block.text for block in document.sections[0].blocks] == ["A", "text", "more"]
    assert document.notes == (LEAVES_OUT_FILES,)
    assert document.references == ()


@pytest.mark.parametrize(
    ("heading", "title", "identifier"),
    [
        ("Title [my-anchor]", "Title", "my-anchor"),
        ("Title [_my_anchor]", "Title", "_my_anchor"),
        ("Title [_anchor]", "Title", "_anchor"),
        ("Introduction `x` [introduction]", "Introduction x", "introduction"),
        ("Title `x` [introduction]\n\n## C [c-d]", "Title x", "introduction"),
        ("Arrays [numpy]", "Arrays [numpy]", None),
        ("Title [a-b] {#c}", "Title", "a-b"),
        ("Title [optional]", "Title [optional]", None),
        ("Title [1.2.0-a]", "Title [1.2.0-a]", None),
        ("Title [T]", "Title [T]", None),
        ("list[int-x]", "list[int-x]", None),
        ("Title [a-link]", "Title a-link", None),
    ],
)
def test_ids_in_brackets_after_a_heading(heading: str, title: str, identifier: str | None) -> None:
    definition = "" if identifier else "[a-link]: b.md\n"
    section = read(f"# A\n\n## {heading}\n\n{definition}").sections[1]
    assert section.title == title
    assert section.labels[0] == identifier or identifier is None


def test_ids_between_dollar_signs_are_labels_and_no_text() -> None:
    document = read("# A\n\n$$$set-x$$$ `x` is $$$a$$$.\n\n$$$big-id$$$\n\n## B\n")
    assert [block.text.strip() for block in document.sections[0].blocks] == ["A", "x is $$$a$$$."]
    assert document.sections[1].labels == ("big-id", "b")
    assert {"set-x", "big-id"} <= {label.name for label in document.labels}


@pytest.mark.parametrize(
    ("destination", "target"),
    [
        ('{{< ref "b.md#c" >}}', "b.md#c"),
        ('{{% relref "/b" %}}#c', "/b#c"),
        ("{{< relref path='b' lang='en' >}}", "b"),
        ("{{<ref b>}}", "b"),
        ("{% link _posts/b.md %}", "/_posts/b.md"),
        ("{{ site.baseurl }}{% link b.md %}", "/b.md"),
        ("{{ site.baseurl }}/b/", "/b/"),
        ("{{ '/b' | relative_url }}", "/b"),
    ],
)
def test_destinations_that_are_shortcodes(destination: str, target: str) -> None:
    document = read(f"See [the *text*]({destination}), {{{{< x >}}}}.\n")
    assert [(reference.text, reference.target) for reference in document.references] == [("the text", target)]
    assert [block.text for block in document.sections[0].blocks] == ["See the text, ."]


# -- references


def test_references_are_links_with_a_text_of_their_own_to_the_corpus() -> None:
    text = (
        "a [one *two*](../x.md#y)\nand [three\nfour](#z) [out](https://a.b) [mail](mailto:a@b) "
        "<https://c.d> [r]\n\n"
        "| [cell](/abs) |\n|---|\n\n{doc}`five <guide>` {ref}`six <label>` {ref}`bare` [x.md](x.md)\n\n"
        "[seven](project:#label) [eight](path:a.md)\n\n"
        "[r]: r.md\n"
    )
    found = [(ref.role, ref.text, ref.target, ref.line) for ref in read(text).references]
    assert found == [
        ("link", "one two", "../x.md#y", 1),
        ("link", "three four", "#z", 2),
        ("link", "r", "r.md", 3),
        ("link", "cell", "/abs", 5),
        ("doc", "five", "guide", 8),
        ("ref", "six", "label", 8),
        ("link", "seven", "#label", 10),
        ("link", "eight", "a.md", 10),
    ]


# -- bad input


@pytest.mark.parametrize("source", ["a.md", "a.rst"])
def test_crlf_and_a_byte_order_mark_change_nothing(source: str) -> None:
    text = "# T\n\na\nb\n\n- c\n\nD\n-\n\ntext::\n\n    code\n    more\n"
    changed = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    assert read_document(source, changed).sections == read_document(source, text.encode()).sections


def test_an_unclosed_fence_is_code_to_the_end_and_noted() -> None:
    document = read("# T\n\n```\na\n\n# b\n")
    assert document.sections[0].blocks[-1] == Block(kind="code", text="a\n\n# b", line_start=4, line_end=6)
    assert [note.split(":")[0] for note in document.notes] == ["line 3"]
    assert read("```\na\n```\n").notes == read("- ```\n  a\n  ```\n").notes == ()


@pytest.mark.parametrize("mark", ["> ", "- ", ">", "1. "])
def test_three_hundred_levels_lose_no_text(mark: str) -> None:
    document = read(mark * 300 + "deep\n\nafter\n")
    found = " ".join(block.text for block in document.sections[0].blocks)
    assert "deep" in found
    assert "after" in found
    assert any("nested too deeply" in note for note in document.notes)


def test_attribute_lists_are_no_text_and_their_ids_are_labels() -> None:
    headings = "# A {: #top .x }\n\n## B {.y} {#b2}\n\n"
    document = read(headings + "[l](m.md){: target=_blank } `{: #no }` `c`{.py}.\n{: #para }\n\n{x}\n")
    assert [(s.title, s.labels) for s in document.sections] == [("A", ("top", "a")), ("B", ("b2", "b"))]
    assert [block.text for block in document.sections[1].blocks] == ["B", "l {: #no } c.", "{x}"]
    assert ("para", 6) in [(label.name, label.line) for label in document.labels]
    assert "no" not in [label.name for label in document.labels]


@pytest.mark.parametrize(
    ("markdown", "title", "labels"),
    [
        ("# First Steps { #first-steps }", "First Steps", ("first-steps",)),
        ('# Extra { .cls #extra data-toc-label="a, b" }', "Extra", ("extra",)),
        ("# Hidden {: #hid hidden data-search-exclude }", "Hidden", ("hid", "hidden")),
        ("Set { #set-id }\n===", "Set", ("set-id", "set")),
        ("# Left { data-search-exclude } { #one }", "Left", ("one", "left")),
        ("# Route {id} and { word }", "Route {id} and { word }", ("route-id-and--word-",)),
        ("# Code `{ #id }`", "Code { #id }", ("code--id-",)),
    ],
)
def test_spaced_attribute_lists_of_headings(markdown: str, title: str, labels: tuple[str, ...]) -> None:
    assert (read(markdown).title, read(markdown).sections[0].labels) == (title, labels)


@pytest.mark.parametrize(
    ("markdown", "readable", "labels"),
    [
        (
            "Click [Get](x.md){ .md-button #get }, ![A](a.png){ width=300 loading=lazy }.",
            "Click Get, A.",
            ["get"],
        ),
        ("~~old~~{ .gone } `c`{ .py } *e*{ #e .x }", "old c e", ["e"]),
        (":material-clock:{ .lg .middle } **Set up**", ":material-clock: Set up", []),
        ("Text. (1)\n{ .annotate #p }", "Text. (1)", ["p"]),
        ("- item\n{ .cls }", "- item", []),
        ("| a { .x #cell } |\n|---|\n", "a", ["cell"]),
        ("{ .cls } and\n{ .cls } more, [a](b.md) { .cls }", "{ .cls } and\n{ .cls } more, a { .cls }", []),
        ("[a](b.md){word} {: x }", "a{word} {: x }", []),
    ],
)
def test_spaced_attribute_lists_in_text(markdown: str, readable: str, labels: list[str]) -> None:
    assert texts(markdown) == [readable]
    assert [label.name for label in read(markdown).labels] == labels


@pytest.mark.parametrize(
    "text",
    [
        "[" * MAX_INLINE,
        "![](" * (MAX_INLINE // 4),
        "*a_ " * (MAX_INLINE // 4),
        "<a " * 3000,
        "<A {" * 2500,
        "{/* " * 2500,
        "{/*\n\n" * 2000 + "*/} x",
        "<!-- a\n\n" * 2000,
        "<script>\n" * 2000,
        "import {\n\n" * 2000,
        "<A></A>\n" * 2000,
        "# {/*" * 2000,
        "[a]: b 'c\n" * 900,
        "{{< a\n\n" * 1500,
        "{{< a " * 1600,
        "{{% a %}}" * 1000,
        "{% highlight a %}\n" * 1000,
        ':::a b="' * 1000,
        "```{note}\n" * 500,
        ":::note\n" * 2000,
        "/// note\n" * 2000,
        '=== "a"\n\n\n' * 2000,
        "\n".join(f"{' ' * 4 * depth}!!! a" for depth in range(200)),
        "(a)=\n" * 2000,
        "|a|\n|-|\n" * 1000,
    ],
    ids=lambda text: repr(text[:8]),
)
@pytest.mark.parametrize("suffix", ["md", pytest.param("mdx", marks=pytest.mark.full)])
def test_hostile_repetition_is_parsed_completely(text: str, suffix: str) -> None:
    document = read(text, f"a.{suffix}")
    assert document.sections[0].line_end == document.line_count
