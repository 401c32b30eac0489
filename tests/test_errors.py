"""What an error tells the person who meets it."""

from branchrank.errors import suggestion


def test_a_typo_gets_the_nearest_name():
    assert suggestion("hybird", ["local", "hybrid"]) == "did you mean `hybrid`?"


def test_a_name_without_a_near_match_gets_no_suggestion():
    assert suggestion("xyz", ["local", "hybrid"]) == ""
