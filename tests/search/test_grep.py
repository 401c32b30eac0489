"""Grep: the child process, passages, ranking, and attacks through the query."""

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.errors import CorpusError
from branchrank.core.letters import folded
from branchrank.documents.loading import discover
from branchrank.search.files import ripgrep
from branchrank.search.files.grep_search import Grep, counts_of, extract_terms
from branchrank.search.files.ripgrep import search_files


def write_lines(path: Path, count: int, marks: dict[int, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(marks.get(n, f"line {n}") + "\n" for n in range(1, count + 1)), encoding="utf-8")


def grep(root: Path, **options: int) -> Grep:
    """A search of every file below ``root`` that is not hidden."""
    files = [path.relative_to(root) for path in root.rglob("*") if path.is_file() or path.is_symlink()]
    return Grep(root, [str(file) for file in files if not file.name.startswith(".")], **options)


def test_equal_passages_keep_the_order_of_files_and_lines(tmp_path: Path) -> None:
    for name in ("c.rst", "a.rst", "b/d.rst"):
        write_lines(tmp_path / name, 100, {80: "needle", 10: "needle"})
    found = grep(tmp_path).search("needle", limit=None).passages
    assert [(p.source, p.matched[0]) for p in found] == [
        (name, line) for name in ("a.rst", "b/d.rst", "c.rst") for line in (10, 80)
    ]
    assert len({p.score for p in found}) == 1


def test_a_term_in_every_file_still_finds_passages(tmp_path: Path) -> None:
    # The classic IDF is negative here and would drop the only exact match.
    write_lines(tmp_path / "only.rst", 30, {15: "needle"})
    (passage,) = grep(tmp_path).search("needle").passages
    assert passage.score > 0


def test_rare_terms_have_a_higher_weight(tmp_path: Path) -> None:
    for n in range(4):
        write_lines(tmp_path / f"{n}.rst", 30, {15: "cache"})
    write_lines(tmp_path / "4.rst", 30, {15: "cache zymurgy"})
    found = grep(tmp_path).search("cache zymurgy")
    assert found.relevance("ZYMURGY") > found.relevance("Caches and a cache") > found.relevance("a cache") > 0
    assert found.relevance("scacheless") == 0


@given(
    text=st.text(alphabet="aAbB_-. \nÉİ1", max_size=40), query=st.text(alphabet='aAbB_-. "É1', max_size=10)
)
def test_a_term_counts_once_per_pattern_match(text: str, query: str) -> None:
    terms = extract_terms(query)
    starts = {"word": r"(?<!\w)", "quoted": "", "identifier": ""}
    expected = [
        len(re.findall(starts[term.kind] + re.escape(folded(term.text)), folded(text))) for term in terms
    ]
    assert counts_of(terms, text) == expected


def test_terms_are_literal(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.rst", 30, {5: "foobar", 28: "f.*r"})
    assert [p.matched for p in grep(tmp_path, context_lines=2).search("f.*r").passages] == [(28,)]


def test_only_the_given_sources_count(tmp_path: Path) -> None:
    for name in ("a.rst", "b.rst", ".hidden.rst", "c.txt"):
        write_lines(tmp_path / name, 30, {15: "needle"})
    found = Grep(tmp_path, ["a.rst", ".hidden.rst"]).search("needle").passages
    assert [p.source for p in found] == [".hidden.rst", "a.rst"]
    assert [p.source for p in grep(tmp_path).search("needle").passages] == ["a.rst", "b.rst", "c.txt"]


def test_no_ignore_file_or_configuration_changes_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "corpus"
    write_lines(root / "a.rst", 30, {15: "needle"})
    (root / ".gitignore").write_text("*.rst\n")
    (root / ".ignore").write_text("*.rst\n")
    configuration = tmp_path / "ripgreprc"
    configuration.write_text("--glob=!*.rst\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(configuration))
    assert len(grep(root).search("needle").passages) == 1


def test_links_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "corpus"
    write_lines(root / "a.rst", 30, {})
    write_lines(tmp_path / "outside" / "secret.rst", 30, {15: "needle"})
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "file.rst").symlink_to(tmp_path / "outside" / "secret.rst")
    assert grep(root).search("needle").passages == ()
    assert Grep(root, ["a.rst", "file.rst", "folder/secret.rst"]).search("needle").passages == ()


def test_line_ends_and_invalid_utf8_are_handled(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_bytes(b"first\r\nthe \xff needle\r\nlast\x0c still last")
    (passage,) = grep(tmp_path).search("needle").passages
    assert passage.text == "first\nthe \xff needle\nlast\x0c still last"
    assert passage.line_end == 3


def test_empty_results_and_empty_queries_are_handled(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.rst", 30, {})
    assert grep(tmp_path).search("absent").passages == ()
    assert grep(tmp_path).search("   ").terms == ()
    with pytest.raises(CorpusError, match="not a folder"):
        grep(tmp_path / "missing").search("x")


DASHES = [
    "--pre=touch canary",
    "--pre touch",
    "-e x --pre=./canary.sh",
    "--hostname-bin=./canary.sh",
    "--search-zip --pre=./canary.sh",
    "-f/etc/passwd",
    "--file=/etc/passwd",
    "--follow",
    "-uuu",
    "--",
    "-- /etc",
    "--regexp=root --files /etc",
    "'--pre=./canary.sh'",
    '"--pre=./canary.sh"',
    "$(./canary.sh)",
    "`./canary.sh`",
    "; ./canary.sh",
    "| ./canary.sh",
    "x\n--pre=./canary.sh",
    "x\0--pre=./canary.sh",
]


def test_a_query_is_never_parsed_as_a_flag(tmp_path: Path) -> None:
    root = tmp_path / "corpus"
    write_lines(root / "a.rst", 30, {15: "root harmless --pre=touch"})
    script = root / "canary.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/fired\ncat\n")
    script.chmod(0o755)
    variants = [prefix + attack for attack in DASHES for prefix in ("", " ", "-", "-" * 9, "=", "\t", "a ")]
    for query in variants:
        for passage in grep(root).search(query).passages:
            assert passage.source in {"a.rst", "canary.sh"}
    assert sorted(path.name for path in root.iterdir()) == ["a.rst", "canary.sh"]
    assert not (tmp_path / "fired").exists()


@given(query=st.text(max_size=80))
def test_any_query_is_answered(query: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.getbasetemp() / "any-query"
    write_lines(root / "a.rst", 30, {15: "a e i o u ( [ . * + ? \\ é 用 --x"})
    for passage in grep(root).search(query).passages:
        assert passage.source == "a.rst"
        assert passage.score >= 0


def test_the_whole_process_group_ends_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "rg"
    slow.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {tmp_path}/child\necho $$ > {tmp_path}/self\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setattr(ripgrep, "ripgrep_binary", lambda: slow)
    found = search_files(tmp_path, ["x"], ["a.rst"], deadline_s=0.3)
    assert found.files == {}
    (notice,) = found.notices
    assert "0.3 s" in notice
    for name in ("self", "child"):
        assert ended(int((tmp_path / name).read_text()))


def ended(process: int) -> bool:
    """Whether a process is gone, or dead and waiting to be reaped, within five seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    os.kill(process, 9)
    return False


def test_output_past_the_limit_is_cut_with_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "a.rst", 5000, {n: f"needle {n}" for n in range(1, 5001)})
    monkeypatch.setattr(ripgrep, "OUTPUT_LIMIT", 10_000)
    found = search_files(tmp_path, ["needle"], ["a.rst"])
    assert 0 < len(found.files["a.rst"]) < 5000
    assert "incomplete" in found.notices[0]


def test_the_largest_file_that_is_indexed_is_searched(tmp_path: Path) -> None:
    """One limit for the index and for grep."""
    (tmp_path / "large.rst").write_bytes(b"hay and more hay\n" * (17 * 2**16) + b"needle\n")
    sources = [file.source for file in discover(tmp_path).files]
    found = Grep(tmp_path, sources, deadline_s=60).search("needle")
    assert [passage.source for passage in found.passages] == ["large.rst"]
    assert found.notices == ()


def test_a_long_chain_of_matches_is_divided_between_two_matches(tmp_path: Path) -> None:
    """Into parts of at most 60 lines, each with the whole context of its matches."""
    write_lines(tmp_path / "a.rst", 400, dict.fromkeys(range(20, 381, 9), "needle"))
    found = grep(tmp_path).search("needle", limit=None, ranking="raw").passages
    assert [(each.matched[0] - 10, each.matched[-1] + 10) for each in found] == [
        (each.line_start, each.line_end) for each in found
    ]
    assert [len(each.matched) for each in found] == [5] * 8 + [1]
    assert [line for each in found for line in each.matched] == list(range(20, 381, 9))
    (whole,) = grep(tmp_path).search("needle", passage_lines=0).passages
    assert (whole.line_start, whole.line_end, len(whole.matched)) == (10, 390, 41)
    wide = grep(tmp_path, context_lines=100).search("needle", limit=None, ranking="raw").passages
    assert [(each.line_start, each.line_end) for each in wide] == [
        (max(1, line - 100), min(400, line + 100)) for line in range(20, 381, 9)
    ]
