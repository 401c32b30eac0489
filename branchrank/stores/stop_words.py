"""English stop words, including question words, for BM25, grep and FTS5 queries."""

from __future__ import annotations

_STOP_WORDS = """
a about after all also am an and any are as at be because been before being between both but by can
cannot could did do does doing don done during each either else every for from further had has have
having he her here hers him his how however i if in instead into is it its itself just let like may me
might mine more most must my need neither no nor not of off on once one only onto or other our ours
out over own per please rather same shall she should so some such than that the their them then there
these they thing things this those through to too toward under until up upon us very want wants was way
we were what when where whether which while who whom whose why will with within without would you your
"""
#: The stop words, in lower case.
STOP_WORDS = frozenset(_STOP_WORDS.split())
