"""Search logs and exported tickets become questions."""

from __future__ import annotations

import codecs
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import invoke
from support.worlds import write_pages

import branchrank
from branchrank.core.records import Question
from branchrank.questions.question_files import COUNT, UNPLACED, load_questions

TEA = "Tea\n===\n\nLeaves.\n\n.. _tea_steeping:\n\nSteeping time\n-------------\n\nThree minutes.\n"
MILK = (
    "# Milk\n\nWhite.\n\n## Frothing\n\nSteam.\n\n<a id='foam'></a>\n\nFoam.\n\n"
    "## Notes\n\nA.\n\n## Notes\n\nB.\n"
)
PAGES = {
    "index.rst": "Drinks\n======\n\nAll of them.\n",
    "guide/tea.rst": TEA,
    "guide/index.md": "# The guide\n\nRead on.\n",
    "guide/milk.md": MILK,
    "02-setup/Kettle Care.md": "# Kettles\n\nBoil.\n\n## Descale it\n\nVinegar.\n",
    "copies/milk.md": MILK,
}
SITE = "https://docs.example.com/en/latest"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    corpus = write_pages(folder / "docs", PAGES)
    data = folder / "data"
    data.mkdir()
    (data / "branchrank.toml").write_text(f'corpus = "{corpus}"\n[index]\nembedder = "fake"\n')
    return data


Import = Callable[..., list[Question]]


@pytest.fixture
def importing(data_dir: Path, tmp_path: Path) -> Import:
    """Import a file with this content, and return the questions."""

    def run(content: str | bytes, name: str = "log.csv") -> list[Question]:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        output = tmp_path / "made.jsonl"
        done = invoke(
            "questions", "import", str(tmp_path / name), "--data-dir", str(data_dir), "--output", str(output)
        )
        assert done.exit_code == 0, done.output
        return load_questions(output)

    return run


def places(question: Question) -> list[str]:
    """The gold of a question as SOURCE or SOURCE:FIRST-LAST."""
    lines = [item.span for item in question.gold]
    return [
        span.citation if span else item.source_file for span, item in zip(lines, question.gold, strict=True)
    ]


STEEPING, FROTHING = "guide/tea.rst:6-11", "copies/milk.md:5-12"
WHOLE_TEA = "guide/tea.rst"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (f"{SITE}/guide/tea.html#steeping-time", STEEPING),
        (f"{SITE}/guide/tea.html#tea-steeping", STEEPING),
        (f"{SITE}/guide/tea/?highlight=leaves#steeping-time", STEEPING),
        ("http://DOCS.example.com:8080/guide/tea#:~:text=Leaves", WHOLE_TEA),
        ("docs.example.com/v2/guide/tea.html", WHOLE_TEA),
        ("/guide/Tea/", WHOLE_TEA),
        ("guide/tea.rst#Steeping time", STEEPING),
        ("docs\\guide\\tea.rst", WHOLE_TEA),
        ("https://github.com/org/drinks/blob/main/docs/guide/tea.rst", WHOLE_TEA),
        (f"{SITE}/#/guide/tea?id=steeping-time", STEEPING),
        (f"{SITE}/guide/milk.html#frothing", FROTHING),
        (f"{SITE}/guide/milk.html#foam", FROTHING),
        (f"{SITE}/guide/milk.html#notes-1", "copies/milk.md:17-19"),
        (f"{SITE}/setup/kettle-care/#descale-it", "02-setup/Kettle Care.md:5-7"),
        ("/setup/Kettle%20Care#descale-it", "02-setup/Kettle Care.md:5-7"),
        (f"{SITE}/guide/index.html", "guide/index.md"),
        (f"{SITE}/guide/", "guide/index.md"),
        ("https://docs.example.com/", "index.rst"),
        ("/index.html", "index.rst"),
    ],
)
def test_an_address_becomes_the_gold_that_the_site_shows(
    importing: Import, address: str, expected: str
) -> None:
    [question] = importing(json.dumps({"query": "how long", "url": address}), "log.jsonl")
    assert places(question) == [expected]
    assert question.gold_level == ("span" if ":" in expected else "file")
    assert UNPLACED not in question.extra
    assert all(item.answer_digest for item in question.gold if item.span)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (f"{SITE}/guide/coffee.html", "no such page"),
        (f"{SITE}/guide/index/tea.html", "no such page"),
        (f"{SITE}/guide/tea.html#coffee", "no such label"),
        ("https://example.com/tickets/index.html", "no such page"),
        ("https://example.com/guide/kettle-care", "no such page"),
        (f"{SITE}/tea.zip", "not a document"),
        ("https://[docs/tea", "not a URL"),
        ("", ""),
    ],
)
def test_what_has_no_place_is_kept_as_a_question_to_label(
    importing: Import, tmp_path: Path, data_dir: Path, address: str, reason: str
) -> None:
    [question] = importing(f"query,count,url\nhow long,7,{address}\n")
    assert (question.gold, question.answerable, question.extra[COUNT]) == ((), False, 7)
    expected = f"{address}: {reason}" if address else "no clicked page"
    assert question.extra[UNPLACED] == [expected]
    again = branchrank.Workspace.open(data_dir).questions.import_asked(
        tmp_path / "log.csv", tmp_path / "more.jsonl"
    )
    assert [(each.address, each.clicks, each.questions) for each in again.unplaced] == [(address, 7, 1)]


def test_the_home_page_of_a_site_is_known_from_its_other_pages(importing: Import) -> None:
    rows = [("start", f"{SITE}/"), ("tea", f"{SITE}/guide/tea.html"), ("index", f"{SITE}/index.html")]
    made = importing("query,url\n" + "".join(f"{query},{url}\n" for query, url in rows))
    assert [places(each) for each in made] == [["index.rst"], [WHOLE_TEA], ["index.rst"]]


def test_rows_of_one_query_are_merged_with_the_most_clicked_place_first(importing: Import) -> None:
    rows = [
        ("Tea time", 2, "guide/tea.rst"),
        ("tea  TIME", 5, "guide/milk.md#frothing"),
        ("tea time", 9, "guide/tea.rst#steeping-time"),
        ("tea time", 0, "02-setup/Kettle Care.md"),
        ("tea time", 3, "/gone"),
        ("milk", 1, "guide/milk.md#foam"),
        ("milk", 4, "guide/tea.rst"),
    ]
    content = "query,count,url\n" + "".join(f"{query},{count},{url}\n" for query, count, url in rows)
    tea, milk = importing(content)
    assert (tea.question, tea.extra[COUNT], tea.gold_level) == ("tea time", 19, "span")
    assert places(tea) == [STEEPING, FROTHING]
    assert tea.extra[UNPLACED] == ["02-setup/Kettle Care.md: no clicks", "/gone: no such page"]
    assert (places(milk), milk.gold_level) == ([WHOLE_TEA, "copies/milk.md"], "file")
    assert milk.source_aliases == ()


TABLE = [
    ("query", "count", "clicked"),
    ("how long, roughly; and why", "1,204", "/guide/tea#steeping-time"),
    ('a "second"\nline', "", "/guide/milk#frothing"),
]


def written(separator: str, end: str = "\n") -> str:
    cells = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in TABLE]
    return "".join(separator.join(row) + end for row in cells)


@pytest.mark.parametrize(
    "content",
    [
        written(","),
        written(";", "\r\n"),
        written("\t"),
        f"sep=;\r\n{written(';')}",
        f"# exported\n\n{written(',')}\n,,\n",
        codecs.BOM_UTF8 + written(";").encode(),
        written(";").encode("utf-16"),
        gzip.compress(written(",").encode()),
        "".join(f"{json.dumps(dict(zip(TABLE[0], row, strict=True)))}\n" for row in TABLE[1:]),
        "\n".join(
            (
                '{"Search Term": "how long, roughly; and why", "Clicks": 1204, "page": "guide/tea.rst",'
                ' "anchor": "#steeping-time", "day": 3}',
                '{"search-term": "a \\"second\\"\\nline", "URL": ["/guide/milk#frothing"], "clicks": null}',
            )
        ),
    ],
    ids=["comma", "Excel", "tab", "sep", "blank", "BOM", "UTF-16", "gzip", "JSON Lines", "names"],
)
def test_files_as_programs_write_them(importing: Import, content: str | bytes) -> None:
    first, second = importing(content)
    assert (first.question, first.extra, places(first)) == (
        "how long, roughly; and why",
        {COUNT: 1204},
        [STEEPING],
    )
    assert (second.question, second.extra, places(second)) == ('a "second" line', {COUNT: 1}, [FROTHING])


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("query,count\nfine,1\nbad,many\n", ":3: 'many' is not a count"),
        ("query,count\nbad,-2\n", ":2: '-2' is not a count"),
        ("query,count\nhow, then,2\n", ":2: the row has more cells"),
        ("day,url\n1,/guide\n", ":1: no column is called query"),
        ('query,count\n"open,1\nmore,2\n', ":2: the row is not CSV"),
        ('query\n"first\nline"\nx,2\n', ":4: the row has more cells"),
        ('{"query": "fine"}\n{"query": 3}\n', ":2: expected text, not 3"),
        ('{"query": "fine"}\n{"query":\n', ":2: "),
        ('[{"query": "fine"}]\n', ":1: "),
        ("query,url\n,/guide\n", " has no row with a query"),
        ("", " has no row with a query"),
        (b"query\ncaf\xe9\n", ":2: the line is not UTF-8"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_written(
    data_dir: Path, tmp_path: Path, content: str | bytes, place: str
) -> None:
    path, output = tmp_path / "log", tmp_path / "made.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = invoke("questions", "import", str(path), "--data-dir", str(data_dir), "--output", str(output))
    assert done.exit_code == 3
    assert f"{path}{place}" in done.stderr
    assert not output.exists()


def test_questions_are_added_to_those_of_the_workspace(data_dir: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("query,url\nHow  long,/guide/tea#steeping-time\nhow hot,\n,/guide\n")
    own = data_dir / "benchmark" / "questions.jsonl"
    own.parent.mkdir()
    line = '{"id": "mine", "question": "how LONG", "source_file": "guide/tea.rst", "gold_level": "file"}\n'
    own.write_text(line)
    with branchrank.Workspace.open(data_dir) as workspace:
        first = workspace.questions.import_asked(log)
        assert (first.rows, first.without_query, first.queries) == (2, 1, 2)
        assert [each.question for each in first.questions] == ["how hot"]
        assert workspace.questions.import_asked(log).questions == ()
        assert workspace.questions.check().unanswerable == 1
    assert own.read_text().startswith(line)
    target = own.rename(tmp_path / "shared.jsonl")
    own.symlink_to(target)
    with branchrank.Workspace.open(data_dir) as workspace:
        workspace.questions.reanchor()
        log.write_text("query,url\nhow strong,\n")
        assert len(workspace.questions.import_asked(log).questions) == 1
        workspace.questions.reanchor()
    assert own.is_symlink()
    assert [each.question for each in load_questions(target)] == ["how LONG", "how hot", "how strong"]
    assert [each.id for each in load_questions(own)][:2] == ["mine", first.questions[0].id]


def test_columns_that_are_ignored_are_named_and_a_long_list_is_cut(data_dir: Path, tmp_path: Path) -> None:
    log, output = tmp_path / "log.csv", tmp_path / "made.jsonl"
    rows = "".join(f"how {number},7,u,/gone/{number}\n" for number in range(200))
    log.write_text(f"Search Term,Total searches,<Article> URL,Page\n{rows}")
    done = invoke("questions", "import", str(log), "--data-dir", str(data_dir), "--output", str(output))
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert "  ignored columns: Total searches, <Article> URL" in lines
    listed = [line for line in lines if "(no such page; 1 click, 1 question)" in line]
    assert 0 < len(listed) < 200
    assert any(f"{200 - len(listed)} more" in line for line in lines)
    assert all(each.extra[UNPLACED] for each in load_questions(output))
    log.write_text("query,url\nhow long,/gone\n")
    done = invoke("questions", "import", str(log), "--data-dir", str(data_dir), "--output", str(output))
    assert "ignored columns" not in done.output
