"""Ceph's releases by number."""

import pytest

from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.spec.clusterspec import makes_a_pool, number_of


@pytest.mark.parametrize(("release", "number"), [("hammer", 8), ("nautilus", 14), ("reef", 18), ("tentacle", 20)])
def test_a_release_has_the_number_of_its_letter(release: str, number: int) -> None:
    assert number_of(release) == number


@pytest.mark.parametrize("release", ["", "18.2.7", "Reef", "ångström"])
def test_what_is_no_name_has_no_number(release: str) -> None:
    assert number_of(release) is None


def test_only_the_oldest_release_starts_without_a_pool() -> None:
    assert [release for release in read_recipes().releases if not makes_a_pool(release)] == ["nautilus"]
    assert makes_a_pool("")
