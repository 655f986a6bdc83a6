"""Ceph's releases by number: what is older than what, and what an older one does not do."""

from __future__ import annotations

_FIRST_WITH_A_POOL = 15


def number_of(release: str) -> int | None:
    """14 for nautilus: a release's name begins with the letter of its number. None for what is no name.

    Source: https://docs.ceph.com/en/latest/releases/, from argonaut on.
    """
    return ord(release[0]) - ord("a") + 1 if release[:1].isascii() and release[:1].islower() else None


def makes_a_pool(release: str) -> bool:
    """Whether managers of that release make a pool of their own in a new cluster: device_health_metrics, later .mgr."""
    number = number_of(release)
    return number is None or number >= _FIRST_WITH_A_POOL
