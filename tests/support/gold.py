"""Short ways to write hits, gold and questions, and Hypothesis strategies for them."""

from hypothesis import strategies as st

from branchrank.core.records import GoldItem, Hit, Question


def hit(source, start, end, text="text"):
    return Hit(id=f"{source}:{start}", source=source, line_start=start, line_end=end, text=text, score=1.0)


def gold(source, start=None, end=None, quote=None):
    return GoldItem(source_file=source, answer_line_start=start, answer_line_end=end, answer_quote=quote)


def question(*items, **fields):
    return Question(id="q", question="?", gold=items, **fields)


_sources = st.sampled_from(["a", "b", "c"])
_spans = st.tuples(st.integers(1, 12), st.integers(0, 4)).map(lambda pair: (pair[0], sum(pair)))
hits_of = st.lists(st.builds(lambda source, span: hit(source, *span), _sources, _spans), max_size=8)
golds_of = st.lists(
    st.builds(lambda source, span: gold(source, *span), _sources, _spans), min_size=1, max_size=4
)
