"""Keeps the tests of the lab within their minute."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """What collecting made stays until the end; no collection of garbage has to go through it again."""
    gc.freeze()
