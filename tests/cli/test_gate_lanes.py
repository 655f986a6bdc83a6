"""In how many processes a gate runs, and where."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cephlab.cli.gate import lanes_of, run
from cephlab.fixtures.run import Request
from cephlab.lab.base.errors import SpecError
from tests.cli.test_gate_request import FAILED, archive

PLAIN = Request(Path("/a"), Path("/h"))


@pytest.mark.parametrize(
    ("request_", "earlier", "named"),
    [
        (replace(PLAIN, inventory=Path("i")), None, "--inventory"),
        (replace(PLAIN, lab="ssh"), None, "--lab ssh"),
        (replace(PLAIN, profile="incerta-3n"), None, "--profile"),
        (replace(PLAIN, resume=Path("r")), None, "--resume"),
        (PLAIN, {"lab": "ssh"}, "--rerun-failed of a run with --lab ssh"),
        (PLAIN, {"profile": "incerta-3n"}, "--rerun-failed of a run with --profile"),
        (PLAIN, {"lab": "local", "profile": None}, None),
        (replace(PLAIN, lab="local"), {"lab": "ssh"}, None),
        (PLAIN, None, None),
    ],
)
def test_one_existing_cluster_and_one_profile_have_one_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request_: Request,
    earlier: dict[str, Any] | None,
    named: str | None,
) -> None:
    """Also where it is an earlier run that had them, as what failed runs again as it ran."""
    monkeypatch.setattr("cephlab.fixtures.lanes.bearable", lambda: 7)
    if earlier is not None:
        request_ = replace(request_, rerun=archive(tmp_path / "earlier", FAILED, **earlier))
    if named is None:
        assert [lanes_of(jobs, request_) for jobs in (0, 1, 2)] == [7, 1, 2]
        return
    assert [lanes_of(jobs, request_) for jobs in (0, 1)] == [1, 1]
    with pytest.raises(SpecError, match=f"-j 2 cannot be given with {named}\n"):
        lanes_of(2, request_)


def test_one_process_is_this_one_and_more_are_side_by_side_here_or_on_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[tuple[object, ...]] = []
    for module, name in (("run", "run_gate"), ("lanes", "run_side_by_side"), ("lanes", "run_in"), ("hosts", "prepare")):
        monkeypatch.setattr(f"cephlab.fixtures.{module}.{name}", lambda *given, name=name: did.append((name, *given)))
    heard: Any = "heard"
    run(PLAIN, 1, (), heard)
    run(PLAIN, 2, (), heard)
    machines: Any = ("near",)
    run(PLAIN, 0, machines, heard)
    assert did == [
        ("run_gate", PLAIN, "heard"),
        ("run_side_by_side", PLAIN, 2, "heard"),
        ("prepare", machines, PLAIN, 0, "heard"),
        ("run_in", PLAIN, None, "heard"),
    ]
