"""IPMI's DCMI end to end: ipmitool against OpenIPMI's simulated BMC, which a module of ours teaches to tell watts."""

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cephlab.lab.base import clock, process
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.process import start_detached
from cephlab.lab.telemetry.bmc import Bmc, bmc_watts

pytestmark = pytest.mark.real

MODULE = Path(__file__).parents[1] / "bmc" / "dcmi.c"
LAN = """
name "bmc"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_admin none md5 straight
    guid 5a6b7c8d9eafb0c1d2e3f40516273849
  endlan
  user 2 true "cephlab" "secret" admin 10 none md5 straight
loadlib "{module}" "{watts}"
"""
CONTROLLER = """
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
"""
SUITE = 3
"""OpenIPMI's simulator knows no later cipher suite."""


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[tuple[Bmc, Path]]:
    """A BMC on loopback, and the file that it reads its watts from."""
    if lacks := [name for name in ("ipmi_sim", "ipmitool", "gcc") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(lacks)} not installed")
    module, watts, password, port = tmp_path / "dcmi.so", tmp_path / "watts", tmp_path / "password", free_port()
    process.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(module), str(MODULE)])
    watts.write_text("225\n")
    password.write_text("secret\n")
    password.chmod(0o600)
    (tmp_path / "lan.conf").write_text(LAN.format(port=port, module=module, watts=watts))
    (tmp_path / "bmc.emu").write_text(CONTROLLER)
    argv = ["ipmi_sim", "-n", "-c", f"{tmp_path}/lan.conf", "-f", f"{tmp_path}/bmc.emu", "-s", str(tmp_path)]
    running = start_detached(argv, log=tmp_path / "sim.log")
    bmc = Bmc(
        node="n0",
        protocol="ipmi",
        address="127.0.0.1",
        port=port,
        user="cephlab",
        password_file=str(password),
        cipher_suite=SUITE,
    )
    try:
        yield bmc, watts
    finally:
        running.kill()
        running.wait(30)


def asked(bmc: Bmc) -> float | None:
    try:
        return bmc_watts(bmc)
    except Unavailable:
        return None


def test_a_simulated_bmc_tells_its_watts(simulated: tuple[Bmc, Path], tmp_path: Path) -> None:
    bmc, watts = simulated
    clock.wait(lambda: asked(bmc), lambda told: told == 225, what="the simulated BMC", timeout_s=60, interval_s=0.5)
    watts.write_text("350\n")
    assert bmc_watts(bmc) == 350
    watts.unlink()
    with pytest.raises(Unavailable, match="the BMC reports no watts"):
        bmc_watts(bmc)
    (tmp_path / "password").write_text("wrong\n")
    with pytest.raises(Unavailable, match="the BMC of n0 does not answer"):
        bmc_watts(bmc)
