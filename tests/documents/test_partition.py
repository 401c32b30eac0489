"""Odd RST and Markdown files: lines are partitioned, chunks stay in sections, no word is lost or doubled."""

from __future__ import annotations

from itertools import count

import msgspec
from documents.invariants import chunks_of, problems_of
from documents.scanner import misplaced
from hypothesis import example, given, settings
from hypothesis import strategies as st

from branchrank.documents.reading import READERS, read_document

RST = [
    "{}\n====\n\n{} {} {}",
    "{}\n----",
    "=======\n {}\n=======",
    ".. _label-{}:\n\n{} *{}*\n~~~~~~~~~~~~~~~~~~~~\n\n{}",
    "{} *{}* **{}** ``{} {}`` :ref:`{} <target>` `{} <https://example.org/a_b>`_ {}.",
    "{} ``unclosed {}",
    "{} *unclosed {}",
    "{} `unclosed {}",
    "{} |unclosed {}",
    "{} :role:`{}\n{}` {}",
    "{} :doc:`{} {}\n</some/path>` {}",
    "* {}\n  {}\n* {}\n\n  * {}\n\n    {}\n",
    "1. {}\n2. {}\n   {}",
    "{}\n    {} {}\n{}\n    {}",
    ":field: {}\n:other field: {}\n   {}",
    "{}::\n\n    {} = {}\n\n    # {}\n      {}",
    "{} ::\n\n    {}",
    "::\n\n  {}\n\n{}",
    ".. code-block:: php\n    :caption: shown\n\n    ${}->{}();\n\n    // {}",
    ".. note:: {}\n    {}\n\n    {}\n\n    .. code-block:: bash\n\n        {} --{}\n\n    {}",
    ".. unknown-directive:: {}\n    :option: value\n\n    {}",
    ".. versionadded:: 5.1 {}\n",
    ".. image:: path/to.png\n    :width: 3\n",
    ".. toctree::\n    :maxdepth: 1\n\n    page\n    other/page\n",
    ".. a comment\n   that goes on\n\n{}",
    ".. _target: https://example.org\n\n{} `target`_ {}",
    ".. [1] {} {}\n   {}",
    "| {}\n| {}",
    ">>> {}\n{}",
    "===== =====\n{}  {}\n===== =====\n{}  {}\n===== =====",
    "+---------+---------+\n| {} | {} |\n+=========+=========+\n| {} | {} |\n+---------+---------+",
    "+----\n| {}",
    ".. |sub| image:: x.png\n",
    "..\n\n    {}",
    "    {}\n\n  {}",
    "----------\n\n{}",
    "__ https://example.org\n\n{}",
]
MARKDOWN = [
    "# {} *{}* `{}`",
    "## {} ##\n{}",
    "### {} {{#explicit}}\n\n{}",
    "{}\n===",
    "{}\n{}\n---\n{}",
    "{} *{}* **{}** `{} {}` [{}](path.md#a) ![{}](b.png) <https://example.org> {}.",
    "{} [{}][ref] {}\n\n[ref]: https://example.org 'Title'",
    "{} `unclosed {}",
    "{} *unclosed {} [unclosed {}",
    "{} `{}\n{}` {}  \n{}\\\n{}",
    "- {}\n  {}\n- {}\n\n  {}\n  * {}\n\n        {}",
    "1. {}\n\n   ```\n   {}\n\n   {}\n   ```\n2) {}",
    "> {}\n> > {}\n{}\n> - {}",
    "```js\n{}({})\n\n# {}\n```",
    "~~~~\n```\n{}\n~~~~\n{}",
    "    {}\n\n    {}",
    "| {} | {} |\n| --- | :-: |\n| {} | *{}* |\n| {} |",
    "<!-- hidden\n\nhidden -->\n{}",
    "<div class='x'>\n{} <b>{}</b>\n</div>\n\n{}",
    "<Tabs items={{['a', 'b']}}>\n{}\n</Tabs>",
    "<details>\n<summary>{}</summary>\n\n{}\n\n</details>",
    ":::note\n{}\n:::",
    "```{{note}}\n:class: x\n{} *{}*\n```",
    "(label)=\n## {}",
    "!!! tip\n    {}\n\n    {}",
    "[^1]: {}\n    {}\n\n{}",
    "***\n{}",
    "{} &amp; {} &lt;",
    "- [ ] {}\n- [x] {}",
]
HTML = [
    "<h1 id=a>{}</h1>\n<p>{} <b>{}</b>{} <a href='b.html#c'>{}\n{}</a>.",
    "<h2>{}</h2><p>{}</p><h2>{}</h2>",
    "<h3>{}\n{}</h3> {}<p>{}",
    "<section id=s>\n<h2><a id=x></a>{}</h2>{}</section>",
    "<ul><li>{}\n<li><p>{}</p><ul><li>{}</ul></ul>",
    "<table><tr><th>{}<th>{}</tr>\n<tr><td><p>{}</p></td>\n<td>{}</td></tr></table>",
    "<pre>{}\n  <span>{}</span> &lt;\n\n{}</pre>{}",
    "<dl><dt id=f>{}</dt><dd>{}</dd></dl>",
    "{}<br>{} <i>{}</p></div> {}",
    "<h1></h1><p>{}",
    "<nav>hidden</nav><script>x < y</script><!-- hidden -->{}",
    "<p>{} &amp; {} < {} <unknown a=b>",
    "<title>page</title>",
    "<blockquote><h4>{}</blockquote>{}",
]
ASCIIDOC = [
    "= {}\n:attribute: value\n\n{} *{}* _{}_ `{} {}` link:b.html[{}] xref:c.adoc#d[{}\n{}] <<id,{}>>.",
    "[[label]]\n== {} ==\n\n{}\n// comment\n{}",
    "{}{}\n-----------\n{}",
    "[#label.role,opts=x]\n=== `{}`\n{}",
    "[discrete]\n== {}",
    "* {}\n  {}\n** {}\n+\n----\n{}\n\n  {}\n----\n. {}",
    "{}:: {}\n{}::\n  {}",
    "[source,python]\n----\n{} = {}\n== {}\n----\n{}",
    "....\n{}\n....\n```js\n{}\n```\n",
    "////\nhidden\n////\n.{}\n====\nNOTE: {}\n====",
    "|===\n| {} | {}\n\n2+| {}\na| {} +\n{}\n|===",
    "include::hidden[]\nimage::hidden.png[{}]\nkbd:[{}] footnote:[{}] https://example.org[{}] {}",
    "  {}\n    {}\n\n{}\n'''\n<<<\n{}",
    "++++\n<b>{}</b>\n++++\n--\n{}\n--",
    "{} *unclosed {} `unclosed {} <<unclosed {}",
]


def _filled(template: str, numbers: count[int]) -> str:
    """The template with a different word in every place, so that none can stand for another."""
    return template.format(*(f"word{next(numbers)}" for _ in range(template.count("{}"))))


def _indented(text: str, indent: str, first: str) -> str:
    lines = text.split("\n")
    return "\n".join([first + lines[0], *(indent + line if line else "" for line in lines[1:])])


@st.composite
def files(draw: st.DrawFn, templates: list[str], nest: tuple[tuple[str, str], ...]) -> bytes:
    """Fragments in any order, some inside containers, with any line ends; unclosed ones come last."""
    numbers = count(100)
    parts = []
    for template in draw(st.lists(st.sampled_from(templates), max_size=8)):
        part = _filled(template, numbers)
        if draw(st.integers(0, 4)) == 0 and "===" not in part and "---" not in part and "~~~~~" not in part:
            head, indent = draw(st.sampled_from(nest))
            part = _indented(part, indent, head)
        parts.append(part)
    line_end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    prefix = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    text = ("\n" * draw(st.integers(2, 3))).join(parts) + "\n" * draw(st.integers(0, 2))
    return prefix + text.replace("\n", line_end).encode()


ODD = settings(max_examples=60, derandomize=True, deadline=None)


@ODD
@given(
    files(RST, ((".. note::\n\n   ", "   "), ("* ", "  "), (".. class:: x\n\n    ", "    "))),
    st.integers(12, 60),
)
def test_no_word_of_odd_rst_is_lost(content: bytes, target: int) -> None:
    assert problems_of("guide/page.rst", content, target_tokens=target) == []


@ODD
@given(files(MARKDOWN, (("- ", "  "), ("> ", "> "), ("1. ", "   "))), st.integers(12, 60), st.booleans())
def test_no_word_of_odd_markdown_is_lost(content: bytes, target: int, mdx: bool) -> None:
    assert problems_of(f"guide/page.{'mdx' if mdx else 'md'}", content, target_tokens=target) == []


@ODD
@given(files(HTML, (("<div>\n", ""), ("<main>\n", ""))), st.integers(12, 60))
def test_no_word_of_odd_html_is_lost(content: bytes, target: int) -> None:
    assert problems_of("guide/page.html", content, target_tokens=target) == []


ODD_SOURCES = [f"a{suffix}" for suffix in READERS.builtin]


@ODD
@given(files(ASCIIDOC, (("====\n", ""), ("* ", ""))), st.integers(12, 60))
def test_no_word_of_odd_asciidoc_is_lost(content: bytes, target: int) -> None:
    assert problems_of("guide/page.adoc", content, target_tokens=target) == []


MARKUP = st.text(st.sampled_from("ab1 \n\n\t`*_|:.=-~#>[](){}<>!+\\\"'&/^$@%,;\r\0é漢"), max_size=200)


@example(b"\n\r", "a.rst")
@given(st.one_of(MARKUP.map(str.encode), st.binary(max_size=80)), st.sampled_from(ODD_SOURCES))
def test_any_bytes_have_a_partition(content: bytes, source: str) -> None:
    assert problems_of(source, content, target_tokens=10, scan=False) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*RST, *MARKDOWN, *HTML, *ASCIIDOC]),
            st.sampled_from(["\n", "\n\n", "\n  ", "\n\t"]),
        ),
        max_size=8,
    ),
    st.sampled_from(ODD_SOURCES),
)
def test_run_together_constructs_have_a_partition(parts: list[tuple[str, str]], source: str) -> None:
    numbers = count(100)
    content = "".join(_filled(template, numbers) + joint for template, joint in parts).encode()
    assert problems_of(source, content, target_tokens=16, scan=False) == []


def test_the_scanner_detects_lost_and_duplicated_and_moved_words() -> None:
    content = b"# Title\n\none two\n\nthree four\n"
    document = read_document("a.md", content)
    (chunk,) = chunks_of(document, 100)

    def changed(**fields: object) -> list[str]:
        return misplaced("a.md", content, [msgspec.structs.replace(chunk, **fields)])

    assert misplaced("a.md", content, [chunk]) == []
    assert changed(text=chunk.text.replace("two", "")) == ["a.md:3:two: 1 in the file, 0 in its chunks"]
    assert changed(text=chunk.text + " four") == ["a.md:0:four: 1 in the file, 2 in all chunks"]
    assert len(changed(line_end=4)) == 2
