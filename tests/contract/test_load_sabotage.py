"""Load on a mixed cluster whose image somebody overwrites before it is read back: the scenario goes red."""

from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.workloads.fioverify import FioVerify
from cephlab.suites.interop.load import IMAGE_BYTES, SCENARIOS
from tests.contract.raising import raised, verdict_of

pytestmark = pytest.mark.real

MIXED = SCENARIOS[0]
PIECE_BYTES = 4 << 20


def test_a_block_that_is_not_what_fio_wrote_fails_it(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = FioVerify.verify

    def overwritten(self: FioVerify) -> None:
        for offset in range(0, IMAGE_BYTES, PIECE_BYTES):
            self.cluster.client.rbd_write(self.witness.pool, self.witness.image, bytes(PIECE_BYTES), offset)
        honest(self)

    monkeypatch.setattr(FioVerify, "verify", overwritten)
    with raised(LocalProvider(), MIXED.topology, home) as cluster:
        verdict = verdict_of(MIXED, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL, verdict
    assert "error that fio ended reading back with: got 84, wanted 0" in verdict.reason
