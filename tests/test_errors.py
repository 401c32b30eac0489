"""What an error tells the person who meets it."""

from branchrank.errors import suggestion


def test_a_typo_gets_the_nearest_name_and_the_list():
    assert suggestion("Hybird", ["local", "hybrid"]) == "did you mean `hybrid`? choose from local, hybrid"


def test_a_name_like_no_other_gets_the_list_alone():
    assert suggestion("xyz", ["local", "hybrid"]) == "choose from local, hybrid"


def test_a_long_list_is_cut():
    remedy = suggestion("q20", [f"question-{number}" for number in range(30)])
    assert remedy.endswith(", question-11, ...")


def test_nothing_known_gives_no_remedy():
    assert suggestion("local", []) == ""
