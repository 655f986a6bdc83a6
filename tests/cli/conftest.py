"""A home without clusters, and a provider that launches nothing real; modules of these tests may have their own."""

from pathlib import Path

import pytest

from cephlab.cli.world import World
from cephlab.lab.base.home import Home
from tests.fake_provider import FakeProvider, providers


@pytest.fixture
def fake() -> FakeProvider:
    return FakeProvider()


@pytest.fixture
def world(tmp_path: Path, fake: FakeProvider) -> World:
    return World(Home(tmp_path / "home").ensure(), providers(fake))
