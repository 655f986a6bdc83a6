"""The name that a user probably meant."""

import pytest

from cephlab.lab.base.nearest import did_you_mean, nearest

NAMES = ("interop", "local", "cephfs.walk", "altra-3n", "ampere-altra-4n", "interop.objects[writer=x86_64]")


def test_the_nearest_names_are_those_that_have_the_word_before_those_that_are_like_it() -> None:
    assert nearest("WALK", NAMES) == ["cephfs.walk"]
    assert nearest("wakl", NAMES) == ["cephfs.walk"]
    assert nearest("xyzzy", NAMES) == []


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("inerop", "interop"),
        ("loca", "local"),
        ("LOCAL", "local"),
        ("altr", "altra-3n or ampere-altra-4n"),
        ("interop", "interop"),
    ],
)
def test_the_name_most_like_the_word_is_suggested(word: str, name: str) -> None:
    assert did_you_mean(word, NAMES, "choose another") == f"did you mean {name}?"


@pytest.mark.parametrize("word", ["foo", ""])
def test_nothing_is_suggested_for_a_word_like_no_name(word: str) -> None:
    assert did_you_mean(word, NAMES, "choose another") == "choose another"
