"""What passages cost and how much of them is gold."""

import tracemalloc

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.gold import gold, golds_of, hit, hits_of, question

from branchrank.core.records import UNPLACED, GoldItem, Span
from branchrank.reports.equal_reading import found_within
from branchrank.runs.summary import passage_size
from branchrank.scoring.matching import judge


@given(hits_of, golds_of, st.sets(st.integers(1, 16), max_size=6))
def test_spans_are_measured_as_the_sets_of_their_lines_with_content(hits, golds, blank):
    asked = question(*golds, source_aliases=("c",))  # c stands for the first gold item's source

    def counted(source, each):
        return [(source, line) for line in range(each[0], each[1] + 1) if line not in blank]

    wanted = [{*counted(item.source_file, (item.answer_line_start, item.answer_line_end))} for item in golds]
    assume(all(wanted))
    hits = [
        msgspec.structs.replace(
            each, text="\n".join("*" if n in blank else "text" for n in range(first, last + 1))
        )
        for each in hits
        for first, last in [(each.line_start, each.line_end)]
    ]
    first = golds[0].source_file
    lines = [
        line
        for each in hits
        for line in counted(first if each.source == "c" else each.source, (each.line_start, each.line_end))
    ]
    returned = {*lines}
    gold_lines = len(returned & set().union(*wanted))
    judged = judge(hits, asked)
    without = {source: sorted(blank) for source in "abc"}
    size = passage_size(msgspec.structs.replace(judged, blank_lines=without))
    assert (size.lines, size.gold_lines) == (sum(each.span.lines for each in hits), gold_lines)
    assert size.span_precision == (gold_lines / len(lines) if lines else 0)
    assert size.gold_coverage == max(len(returned & each) / len(each) for each in wanted)


def test_hits_without_a_place_have_no_size():
    asked = question(gold("z", 1, 4))
    size = passage_size(judge([hit("z", 1, 9), hit(UNPLACED, 1, 5)], asked))
    assert (size.hits, size.lines, size.gold_lines) == (1, 9, 4)


@given(hits_of, golds_of, st.integers(1, 60))
def test_gold_within_a_number_of_lines_is_gold_among_the_first_returned_lines(hits, golds, lines):
    asked = question(*golds, source_aliases=("c",))
    judged = judge(hits, asked).hits
    source = golds[0].source_file
    returned = [
        (source if each.source == "c" else each.source, line)
        for each in judged
        for line in range(each.line_start, each.line_end + 1)
    ]
    wanted = {
        (item.source_file, line)
        for item in golds
        for line in range(item.answer_line_start, item.answer_line_end + 1)
    }
    assert found_within(judged, asked, lines) == bool(wanted & set(returned[:lines]))


def test_gold_without_lines_is_within_the_lines_of_a_whole_hit():
    file = question(gold("a", 1, 4), gold_level="file")
    assert found_within(judge([hit("b", 1, 9), hit("a", 5, 90)], file).hits, file, 10)
    quote = question(GoldItem(source_file="a", answer_quote="text"))
    judged = judge([msgspec.structs.replace(hit("a", 1, 9), text="the text", plain="the text")], quote).hits
    assert [found_within(judged, quote, lines) for lines in (8, 9)] == [False, True]
    other = question(gold("b", 1, 4), gold_level="file")
    assert not found_within(judge([hit("a", 1, 9)], other).hits, other, 5)
    excluded = question(gold("a", 1, 4), excluded_spans=(Span(source="x", line_start=1, line_end=9),))
    assert found_within(judge([hit("x", 1, 9), hit("a", 1, 4)], excluded).hits, excluded, 1)


def test_a_huge_hit_uses_little_memory():
    tracemalloc.start()
    hits = [hit("a", 1, 2_000_000), hit("a", 5, 9)]
    size = passage_size(judge(hits, question(gold("a", 3, 1_000_002))))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (size.lines, size.gold_lines, size.gold_coverage) == (2_000_005, 1_000_000, 1.0)
    assert size.span_precision == pytest.approx(1_000_000 / 2_000_005)
    assert peak < 1_000_000, "bytes"


def test_file_level_gold_has_no_lines_to_measure():
    size = passage_size(judge([hit("a", 1, 4)], question(gold("a", 1, 4), gold_level="file")))
    assert (size.lines, size.span_precision, size.gold_coverage) == (4, None, None)


def test_gold_without_a_line_of_content_counts_all_its_lines():
    judged = judge([hit("a", 1, 4, "*\n*\n*\n*"), hit("a", 1, 9)], question(gold("a", 2, 5)))
    judged = msgspec.structs.replace(judged, blank_lines={"a": (1, 2, 3, 4, 5)})
    assert [judged.ranking(mode).gains for mode in ("half", "full")] == [((1, 2),), ((2, 2),)]
    first = passage_size(msgspec.structs.replace(judged, hits=judged.hits[:1]))
    assert (first.gold_lines, first.span_precision, first.gold_coverage) == (3, 1.0, 0.75)
