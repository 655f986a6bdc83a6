"""Ceph's releases by number, so that they can be compared."""

from __future__ import annotations

_FIRST_WITH_A_POOL = 15


def number_of(release: str) -> int | None:
    """14 for nautilus: a release's name begins with the letter of its number. None if it is no name.

    Source: https://docs.ceph.com/en/latest/releases/, from argonaut on.
    """
    return ord(release[0]) - ord("a") + 1 if release[:1].isascii() and release[:1].islower() else None


def makes_a_pool(release: str) -> bool:
    """Whether managers of a release make their own pool in a new cluster: device_health_metrics, later .mgr."""
    number = number_of(release)
    return number is None or number >= _FIRST_WITH_A_POOL
