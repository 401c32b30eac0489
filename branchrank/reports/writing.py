"""Write a run's report: ``report.md``, its plots, and ``report.html``; or show the summary in a notebook.

``report.html`` is a single file that works without a network and runs only its own script.

1. The sections are HTML with escaped text, and the plots are inline SVG.
2. The page contains the questions as JSON data with every ``<`` escaped, one question per line. The script
   inserts the data as text nodes. Only one page of results is shown at a time, so that a report with a
   thousand questions opens quickly.
3. A content security policy allows only the page's own style and script, identified by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from string import Template

import msgspec

from branchrank.core.io.files import NOT_JSON, storage_errors, write_beneath
from branchrank.core.io.table import html_cell, html_table, html_text
from branchrank.documents.loading import digest_now
from branchrank.reports.blocks import (
    Block,
    Callout,
    Code,
    Plot,
    Points,
    QuestionBrowser,
    Report,
    ReportSection,
    markdown,
)
from branchrank.reports.browser import Passages, browser_data, gather_passages
from branchrank.reports.content import report_content
from branchrank.reports.drawing import draw, drawings, standalone
from branchrank.reports.plots import differences
from branchrank.reports.recommendation import recommendation
from branchrank.reports.result import rates_tables
from branchrank.runs import directory as names
from branchrank.runs.run_data import RunData
from branchrank.runs.summary import agent_table


def write_report(
    run: RunData,
    *,
    with_text: bool = True,
    corpus: Path | None = None,
    into: Path | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write ``report.md``, its plots and ``report.html``, and return the paths of all files written.

    The files are written to the directory ``into`` (by default the run's directory). If ``with_text`` is
    true, ``report.html`` includes document text from the folder ``corpus`` (by default the run's corpus
    folder). Document text is left out if the corpus is missing or has changed, and for runs that do not store
    the wording of questions. ``notice`` is called if the folder ``corpus`` does not contain the run's corpus.
    """
    directory = into or run.directory
    report = report_content(run)
    drawn = drawings(report.plots)
    shared = run.settings.question_text == "hash"
    passages = searched_text(run, corpus) if with_text and not shared else None
    if corpus is not None and with_text and not shared and passages is None:
        notice(f"{corpus} is not the corpus that the run searched, so the report does not include its text")
    written = {
        names.REPORT_MD: markdown(report),
        names.REPORT_HTML: html(run, report, drawn, passages),
        **{f"{names.PLOTS}/{name}.svg": standalone(svg) for name, svg in drawn.items()},
    }
    with storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in written.items():
            write_beneath(directory, name, content.encode("utf-8"))
    return [directory / name for name in written]


def searched_text(run: RunData, corpus: Path | None) -> Passages | None:
    """Return the text of the hits and the gold, or ``None`` if ``corpus`` is not the run's corpus."""
    record = run.record
    root = corpus if corpus is not None else Path(record.corpus) if record.corpus else None
    if root is None or digest_now(root, record.corpus_exclude) != record.corpus_digest:
        return None
    return gather_passages(run, root)


_PASSAGES = re.compile(r'<script type="application/json" id="data-passages">\n(.*?)\n</script>', re.DOTALL)


def html(run: RunData, report: Report, drawings: Mapping[str, str], passages: Passages | None = None) -> str:
    """Return the complete page, without document text if ``passages`` is ``None``."""
    style = _asset("page.css")
    about, questions = browser_data(run, with_quotes=passages is not None)
    links = [(section.anchor, section.title) for section in report.sections]
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src 'sha256-{_hash(style)}'; "
        f"script-src {script_source()}; base-uri 'none'; form-action 'none'",
        title=html_text(report.title),
        style=style,
        script=_script(),
        links="\n".join(
            f'<li><a href="#{html_text(anchor)}">{html_text(title)}</a></li>' for anchor, title in links
        ),
        facts=" · ".join(f"<span>{html_text(fact)}</span>" for fact in report.facts),
        sections="\n".join(_section(section, drawings) for section in report.sections),
        run=script_json(about),
        questions="[\n" + ",\n".join(map(script_json, sorted(questions, key=itemgetter(-1)))) + "\n]",
        passages=script_json(passages),
    )


def _script() -> str:
    return _asset("answers.js") + _asset("page.js")


def script_source() -> str:
    """Return what stands for the pages' script in a content security policy."""
    return f"'sha256-{_hash(_script())}'"


def kept_passages(page: str) -> Passages | None:
    """Return the document text that a page embeds, or ``None`` if the page contains no readable text."""
    found = _PASSAGES.search(page)
    if found is None:
        return None
    try:
        return msgspec.json.decode(found.group(1), type=Passages | None)
    except NOT_JSON:
        return None


def _section(section: ReportSection, drawings: Mapping[str, str]) -> str:
    anchor = html_text(section.anchor)
    blocks = "\n".join(block_html(block, drawings) for block in section.blocks)
    heading = f'<h2 id="{anchor}">{html_text(section.title)}</h2>'
    if section.folded:
        heading, blocks = f'<details class="fold"><summary>{heading}</summary>', f"{blocks}\n</details>"
    return f'<section aria-labelledby="{anchor}">\n{heading}\n{blocks}\n</section>'


def script_json(value: object) -> str:
    """Return JSON on one line, without characters that an HTML parser could read as markup."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _asset(name: str) -> str:
    return files("branchrank.reports").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def block_html(block: Block, drawings: Mapping[str, str]) -> str:
    """Return one block as HTML. ``drawings`` maps the name of each plot to its SVG."""
    if isinstance(block, str):
        return f"<p>{html_text(block)}</p>"
    if isinstance(block, Points):
        items = "".join(f"<li>{' '.join(map(html_cell, item))}</li>" for item in block.items)
        return f'<ul class="points">{items}</ul>'
    if isinstance(block, Code):
        return f'<pre class="code" tabindex="0"><code>{html_text(block.text)}</code></pre>'
    if isinstance(block, Plot):
        caption = f"<figcaption>{html_text(block.caption)}</figcaption>"
        return f'<figure class="plot">{caption}\n{drawings[block.name]}</figure>'
    if isinstance(block, Callout):
        return _callout(block)
    if isinstance(block, QuestionBrowser):
        return _asset("browser.html")
    return html_table(block)


def _callout(block: Callout) -> str:
    items = "".join(f"<li><strong>Warning</strong> {html_text(text)}</li>" for text in block.cautions)
    cautions = f'<ul class="cautions">{items}</ul>' if items else ""
    lines = "".join(f"<p>{' '.join(map(html_cell, line))}</p>" for line in block.lines)
    return f'<div class="callout"><div class="verdict">{lines}</div>{cautions}</div>'


#: Row headings are not bold, because a predictor's name in bold marks a significant winner.
_STYLE = (
    "<style>.branchrank-run tbody th {font-weight: normal; text-align: left} "
    ".branchrank-run caption {text-align: left}</style>"
)


def run_html(run: RunData) -> str:
    """Return a run's summary as HTML, with escaped text and the plot as inline SVG."""
    compared = run.judgment.comparisons
    shown = [differences(compared)] if compared else []
    # rich draws random numbers when it is imported, so the library imports it only to show something.
    from branchrank.reports.terminal_report import summary_table, title, verdicts

    blocks: list[Block] = [
        recommendation(run),
        summary_table(run),
        *filter(None, [agent_table(run.summary_rows)]),
        *rates_tables(run),
        *shown,
        *verdicts(run),
    ]
    drawn = {plot.name: draw(plot.spec) for plot in shown}
    body = "\n".join(block_html(block, drawn) for block in blocks)
    heading = f"<p><strong>{html_text(title(run))}</strong></p>"
    return f'<div class="branchrank-run">{_STYLE}{heading}\n{body}\n</div>'
