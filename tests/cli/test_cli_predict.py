"""`predict`, `explain`, `validate-model` and `probe` as a user meets them."""

import json
import os
import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base import probe
from cephlab.lab.base.errors import CommandFailed, LabBroken, NotInstalled, SpecError, Unavailable
from cephlab.lab.cluster import rates
from cephlab.lab.telemetry import demandfile
from cephlab.tuning.calibrate import LARGE_BYTES, speed
from cephlab.tuning.constants import current
from cephlab.tuning.profilefile import load_profile
from cephlab.tuning.references import SHIPPED
from tests.model_parts import demand

PAGE = Path(__file__).resolve().parents[2] / "docs/model.md"
ALTRA = ("--profile", "ampere-altra-4n")
PAPERS = tuple(
    word for name in ("ampere-altra", "rhcs-10b", "pve-epyc") for word in ("--reference", str(SHIPPED / f"{name}.toml"))
)
"""Three of the publications: all nine take seconds."""
FIO = {
    "jobs": [
        {
            side: {"iops": iops, "bw_bytes": iops * 4096, "lat_ns": {"mean": 1e9 / iops}}
            for side, iops in (("read", 2000), ("write", 1000))
        }
    ]
}


def _cephlab(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), obj=world)


def _json(world: World, *arguments: str) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(_cephlab(world, *arguments, "--json").stdout)
    return reply


def test_predict_works_before_anything_was_measured(world: World) -> None:
    shown = _cephlab(world, "predict", *ALTRA)

    assert shown.exit_code == 0
    assert "randread of 4 KiB" in shown.stdout
    assert "randwrite of 4 KiB" in shown.stdout
    assert "altra: CPU" in shown.stdout
    assert "shipped with cephlab" in shown.stderr
    assert "load machines" in shown.stderr


def test_predict_shows_what_the_paper_published_beside(world: World) -> None:
    shown = _cephlab(world, "predict", *ALTRA)
    reply = _json(world, "predict", *ALTRA)

    assert "compared with figures published" in shown.stdout
    assert {row["name"]: row["published"] for row in reply["published"]}["random read, many clients"] == 970_000
    assert _json(world, "predict", "--profile", "ci-hosted-x86")["published"] == []


def test_the_newest_measured_demand_comes_first(world: World) -> None:
    demandfile.save(world.home.demands / "mine.json", [demand(primary_s=0.01, replicas_s=0.02, core_speed=4.0)])
    reply = _json(world, "predict", *ALTRA, "--op", "randwrite")

    origin = "measured here less than a minute ago: mine.json; delete, get, list, put, randread"
    assert reply["demands"].startswith(origin)
    # 4 nodes x 64 cores x 3.56 points; 30 ms on CPUs of 4 points, by the model's constants for speed and cost.
    known = current()
    ceiling = 4 * 64 * speed(3.56, known) / (0.03 * speed(4.0, known))
    size = 4096 / (4096 + LARGE_BYTES)
    wanted = ceiling / (known.osd_cpu * known.byte_cpu**size)
    assert reply["predictions"][0]["ceilings"][0]["ops_s"] == pytest.approx(wanted)


@pytest.mark.parametrize(("age_s", "said"), [(130, "2 minutes ago"), (3700, "1 hour ago"), (200_000, "2 days ago")])
def test_how_old_the_costs_are_is_said(world: World, age_s: int, said: str) -> None:
    path = world.home.demands / "mine.json"
    demandfile.save(path, [demand(primary_s=0.01, replicas_s=0.02, core_speed=4.0)])
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    assert f"measured here {said}: mine.json" in _json(world, "predict", *ALTRA)["demands"]


def test_a_sweep_shows_latency_against_depth(world: World) -> None:
    reply = _json(world, "predict", *ALTRA, "--op", "randread", "--clients", "1", "--depth", "12", "--sweep", "depth")
    points = reply["sweep"][0]

    assert [point["shape"]["depth"] for point in points] == [1, 2, 4, 8, 12]
    assert [point["ops_s"] for point in points] == sorted(point["ops_s"] for point in points)
    assert "ops/s" in _cephlab(world, "predict", *ALTRA, "--sweep", "clients").stdout


@pytest.mark.slow
def test_a_sweep_over_machines_is_drawn_and_says_which_requirements_are_met(world: World) -> None:
    example = str(PAGE.parents[1] / "examples" / "storage-3n.toml")
    asked = ("predict", "--profile", example, "--op", "randwrite", "--clients", "60", "--sweep", "nodes.count=3..5")
    reply = _json(world, *asked)
    rates = [point["ops_s"] for point in reply["sweep"][0]]
    assert len(rates) == 3
    assert rates == sorted(rates)
    assert [row["plug"] for row in reply["requirements"]] == ["pass", "fail", "fail"]
    shown = _cephlab(world, *asked).stdout
    bars = [line.count("█") for line in shown.splitlines() if "█" in line]
    assert bars == sorted(bars)
    assert bars[-1] == 20
    assert "nodes.count  vm-mix" in shown


def test_another_figure_needs_no_other_file(world: World) -> None:
    plain, changed = (
        _json(world, "predict", *ALTRA, *more)["predictions"][0]["ops_s"] for more in ((), ("--set", "nodes.cores=1"))
    )
    assert changed < plain / 10


def test_explain_shows_formulas_and_sources(world: World) -> None:
    shown = _cephlab(world, "explain", *ALTRA, "--op", "randwrite", "--replicas", "2")

    assert "utilisation law" in shown.stdout
    assert "SPECrate2017_int_base" in shown.stdout
    assert "straight line" not in shown.stdout
    assert _json(world, "explain", *ALTRA)["steps"]


@pytest.mark.slow
def test_validate_model_compares_and_says_what_it_cannot(world: World) -> None:
    shown = _cephlab(world, "validate-model", *PAPERS)
    reply = _json(world, "validate-model", *PAPERS)

    assert shown.exit_code == (1 if ": missed" in shown.stdout else 0)
    assert "geometric mean error" in shown.stdout
    assert "beyond the model:" in shown.stdout
    assert "only in graphs, which the text copies do not have" in shown.stdout
    assert {figure["source"] for figure in reply["figures"]} >= {"ampere-altra", "rhcs-10b", "pve-epyc"}
    assert all(figure["why"] for figure in reply["figures"] if figure["predicted"] is None)
    assert reply["throughput_error"] >= 1
    assert "each test bed left out of the fit" in shown.stdout
    assert {"mako-epyc", "rhcs-p4500"} < set(reply["left_out"]["by_test_bed"])
    assert reply["left_out"]["by_kind"]["small reads"]["factor"] > 1


@pytest.mark.slow
def test_validate_model_ends_with_its_verdict(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = tmp_path / "unknown.json"
    demandfile.save(unknown, [demand(emulated=True)])
    nothing = _cephlab(world, "validate-model", "--demand", str(unknown))
    monkeypatch.setattr("cephlab.tuning.validate.TARGET_ERROR", 1.0)
    missed = _cephlab(world, "validate-model", *PAPERS)
    monkeypatch.setattr("cephlab.tuning.validate.TARGET_ERROR", 3.0)
    monkeypatch.setattr("cephlab.tuning.validate.TARGET_WORST", 5.0)
    met = _cephlab(world, "validate-model", *PAPERS)

    assert nothing.exit_code == 6
    assert "no throughput figure could be predicted" in nothing.stdout
    assert missed.exit_code == 1
    assert "missed" in missed.stdout
    assert met.exit_code == 0
    assert "missed" not in met.stdout


@pytest.mark.slow
def test_validate_model_says_what_rests_on_assumptions(world: World) -> None:
    shown = _cephlab(world, "validate-model", *PAPERS).stdout

    assert "span of 0.0059 -> " in shown
    assert "altra.bandwidth of 6.25 GB/s -> " in shown
    assert "of them rest on no assumption: geometric mean error" in shown


def test_a_span_and_a_hit_ratio_can_be_given(world: World) -> None:
    rhcs = (
        "--profile",
        "rhcs-10b-6n",
        "--op",
        "get",
        "--bs",
        "64k",
        "--ec",
        "4+2",
        "--clients",
        "12",
        "--depth",
        "100",
    )

    def rate(*more: str) -> float:
        return float(_json(world, "predict", *rhcs, *more)["predictions"][0]["ops_s"])

    assert rate("--span", "0.0059") > 2 * rate()
    assert rate("--hit-ratio", "0.9") > 2 * rate()
    explained = _cephlab(world, "explain", *rhcs, "--span", "0.0059").stdout
    assert "on 0.0059 of each disk" in explained
    assert "Ruemmler and Wilkes" in explained
    assert _cephlab(world, "predict", *rhcs, "--span", "2").exit_code == SpecError.exit_code


def test_a_load_without_measure_is_answered_at_once(world: World) -> None:
    reply = _json(world, "predict", *ALTRA, "--op", "randread", "--clients", "100000", "--depth", "100000")

    assert reply["predictions"][0]["ops_s"] == pytest.approx(reply["predictions"][0]["ceilings"][0]["ops_s"], rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "--profile", "nonesuch"), "no profile is named"),
        (("predict", *ALTRA, "--op", "scrub"), "the model does not know the operation"),
        (("predict", *ALTRA, "--bs", "4q"), "--bs: '4q' is not a size"),
        (("predict", *ALTRA, "--ec", "4"), "--ec: '4' is not K+M"),
        (("predict", *ALTRA, "--sweep", "disks"), "--sweep"),
        (("predict", *ALTRA, "--demand", "nonesuch.json"), "nonesuch.json cannot be read"),
        (("probe", "--disk", ".", "--kind", "tape"), "kind of disk"),
        (("probe", "--disk", ".", "--size", "1k"), "too small"),
    ],
)
def test_wrong_use_is_refused_before_anything_starts(world: World, arguments: Sequence[str], said: str) -> None:
    shown = _cephlab(world, *arguments)

    assert shown.exit_code == SpecError.exit_code
    assert said in shown.stderr


def test_probe_writes_a_profile_that_predict_reads(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "require_programs": lambda: "7z",
        "cpu_rating": lambda _: 8160.0,
        "loopback_bytes_s": lambda _: 5e9,
        "loopback_rtt_s": lambda: 20e-6,
        "crc32c_bytes_s": lambda: 8e9,
        "memory_copy_bytes_s": lambda: 9e9,
        "disk": lambda *_: probe.DiskFigures(2000, 1000, 2e8, 1e8, 0.001, 0.0005),
    }.items():
        monkeypatch.setattr(probe, name, value)
    shown = _cephlab(world, "probe", "--disk", str(tmp_path), "--size", "64M")
    made = load_profile(world.home.profiles / "this-machine.toml")

    assert shown.exit_code == 0
    assert made.nodes[0].points == pytest.approx(10.0, rel=1e-3)
    assert made.nodes[0].disks[0].write_iops is not None
    assert not (tmp_path / ".cephlab-probe").exists()
    assert _cephlab(world, "predict", "--profile", "this-machine").exit_code == 0


def test_probe_names_every_program_that_is_missing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "which", lambda name: "/usr/bin/fio" if name == "fio" else None)
    shown = _cephlab(world, "probe", "--disk", ".")

    assert shown.exit_code == NotInstalled.exit_code
    assert "7z, iperf3 are not installed" in shown.stderr
    assert "apt-get install 7zip iperf3" in shown.stderr


def _listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_peer_has_a_rate_a_round_trip_and_an_mtu() -> None:
    with _listening() as server:
        line = probe.line_to(
            "127.0.0.1",
            1.0,
            lambda argv, _: json.dumps({"end": {"sum_received": {"bits_per_second": 8e6 * ("-P" in argv)}}}),
            server.getsockname()[1],
        )
    assert line.bytes_s == 1e6
    assert 0 < line.rtt_s < 1
    assert line.mtu_bytes == min(65535, psutil.net_if_stats()["lo"].mtu)  # no IPv4 packet is longer


@pytest.mark.parametrize("status", [0, 1])
def test_a_peer_without_iperf3_is_named_with_the_remedy(status: int) -> None:
    said = json.dumps({"end": {}, "error": "unable to connect to server: Connection refused"})

    def run(argv: Sequence[str], _timeout_s: float) -> str:
        if status:
            raise CommandFailed(argv, status, said, "", "this machine")
        return said

    with pytest.raises(Unavailable, match=r"iperf3 does not answer on other\.example") as refused:
        probe.line_to("other.example", 1.0, run)
    assert refused.value.detail == "unable to connect to server: Connection refused"
    assert "iperf3 -s" in refused.value.hint


def test_the_disk_is_measured_through_a_file_that_goes_away(tmp_path: Path) -> None:
    asked: list[str] = []

    def run(argv: Sequence[str], _timeout_s: float) -> str:
        asked.append(" ".join(argv))
        return "note: something\n" + json.dumps(FIO)

    with probe.scratch(tmp_path, 1 << 20, destroy=False) as path:
        assert path.exists()
        disk_speed = probe.disk(path, probe.DiskRun(1 << 20, 1.0), lambda _: None, run)

    assert not path.exists()
    assert (disk_speed.read_iops, disk_speed.write_iops) == (2000, 1000)
    assert disk_speed.sync_latency_s == pytest.approx(0.001)
    # The command by which the Proxmox paper chooses disks.
    assert any("--rw=write --bs=4K --iodepth=1 --numjobs=1" in command and "--sync=1" in command for command in asked)


def test_what_is_no_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"--disk: .*none does not exist"):
        probe.scratch(tmp_path / "none", 1 << 10, destroy=False).__enter__()


def test_a_disk_without_room_or_in_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="too little disk space"), probe.scratch(tmp_path, 1 << 60, destroy=False):
        pass
    with (
        probe.scratch(tmp_path, 1 << 10, destroy=False),
        pytest.raises(SpecError, match="another probe"),
        probe.scratch(tmp_path, 1 << 10, destroy=False),
    ):
        pass


def test_what_a_killed_probe_left_is_used_again_and_removed(tmp_path: Path) -> None:
    (tmp_path / ".cephlab-probe").write_bytes(b"left")
    with probe.scratch(tmp_path, 1 << 10, destroy=False):
        pass

    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), probe.scratch(tmp_path, 1 << 10, destroy=False):
        raise KeyboardInterrupt

    assert list(tmp_path.iterdir()) == []


def test_what_the_programs_print_is_read() -> None:
    assert probe.parse_rating("Avr: 1 2 3\nTot:             183   5790  10490\n", 2) == 10490
    assert probe.parse_rating("Tot:              60   5000   3000\n", 2) == pytest.approx(10000)
    assert probe.parse_crc("crc32c:\t\t 8192 MiB/sec\n") == 8192 * (1 << 20)
    assert probe.parse_iperf('{"end": {"sum_received": {"bits_per_second": 8e9}}}') == 1e9
    assert probe.parse_fio(json.dumps(FIO), reads=True)["iops"] == 2000


@pytest.mark.parametrize(
    "read",
    [
        lambda: probe.parse_rating("Segmentation fault", 2),
        lambda: probe.parse_crc("fio: bad option"),
        lambda: probe.parse_iperf("{}"),
        lambda: probe.parse_iperf('{"end": {"sum_received": {"bits_per_second": 0}}}'),
        lambda: probe.parse_fio("{}", reads=True),
        lambda: probe.parse_fio(json.dumps(FIO).replace("2000", "0"), reads=True),
    ],
)
def test_a_program_that_measured_nothing_is_no_result(read: Any) -> None:
    with pytest.raises(LabBroken):
        read()


def test_the_rate_of_the_erasure_code_is_read() -> None:
    assert rates.parse_benchmark("0.5\t819200\n") == (0.5, 819200 * 1024)
    for text in ("", "x", "failed to load plugin", "0.1\tnothing", "0\t20480", "0.1\t0"):
        with pytest.raises(LabBroken):
            rates.parse_benchmark(text)


def test_the_loopback_answers() -> None:
    assert 0 < probe.loopback_rtt_s() < 0.1


def test_a_publication_that_is_not_shipped_is_compared_too(world: World, tmp_path: Path) -> None:
    """As the page of the model shows one."""
    text = PAGE.read_text()
    paper = tmp_path / "paper.toml"
    paper.write_text(next(toml for toml in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[figures]]" in toml))
    reply = _json(world, "validate-model", "--reference", str(paper))
    assert {figure["source"] for figure in reply["figures"]} == {"paper"}
    assert [figure["predicted"] is None for figure in reply["figures"]] == [False, False, True, False]
    refused = _cephlab(world, "validate-model", "--reference", str(tmp_path / "none.toml"))
    assert refused.exit_code == 2
    assert "none.toml" in refused.stderr
