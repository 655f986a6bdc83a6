"""Reads watts from management controllers outside a machine: DCMI through ipmitool, or Redfish through sushy."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cephlab.lab.base import process
from cephlab.lab.base.errors import CommandFailed, SpecError, Unavailable
from cephlab.lab.base.given import is_file, user_path
from cephlab.lab.base.redaction import remember
from cephlab.lab.spec.inventory import matching
from cephlab.lab.spec.specfile import TomlTable, load_model, refuse_twice
from cephlab.lab.spec.written import Flag
from cephlab.lab.telemetry.power import DCMI_ARGV, dcmi_watts, redfish_watts

BMCS_VARIABLE = "CEPHLAB_BMCS"
"""Environment variable with the path of the file that lists the management controllers of the machines."""
MACHINE = "machine"
"""Stands for the one machine that several nodes of a lab share."""

_ASK_S = 20.0
_PRIVATE = 0o077


class Bmc(TomlTable):
    """A management controller (BMC). node: of the cluster, or `machine` for the machine that several nodes share.

    password_file: on this machine, readable by its owner only; relative to the folder of the file with this entry, as
    is certificate. cipher_suite: of IPMI; default: that of ipmitool. chassis: Redfish Id; default: the only chassis
    that reports watts. certificate: PEM file by which its TLS is trusted; default: those that this machine trusts.
    """

    node: str
    protocol: Literal["ipmi", "redfish"]
    address: Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9.:_-]*", "a name or an address")]
    port: Annotated[int, Field(ge=1, le=65535, strict=True)] | None = None
    user: Annotated[str, matching(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", "a user name")]
    password_file: str
    cipher_suite: Annotated[int, Field(ge=1, le=17, strict=True)] | None = None
    chassis: str | None = None
    certificate: str | None = None
    insecure: Flag = False

    @model_validator(mode="after")
    def _sound(self) -> "Bmc":
        if self.protocol == "ipmi" and (self.chassis or self.certificate or self.insecure):
            raise ValueError("chassis, certificate and insecure are for Redfish only; protocol: got ipmi")
        if self.protocol == "redfish" and self.cipher_suite:
            raise ValueError("cipher_suite is for IPMI only; protocol: got redfish")
        return self


class _BmcFile(TomlTable):
    bmc: Annotated[tuple[Bmc, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _sound(self) -> "_BmcFile":
        refuse_twice("bmc", [f"{bmc.node} by {bmc.protocol}" for bmc in self.bmc])
        return self


def load_bmcs(path: Path) -> tuple[Bmc, ...]:
    """The controllers in a file; contacts none. SpecError names file and key, also if others may read the password."""
    read = load_model(path, _BmcFile, what="a list of management controllers", hint="see docs/power.md for the keys")
    bmcs = []
    for bmc in read.bmc:
        files = {"password_file": str(path.parent / user_path(bmc.password_file))}
        if bmc.certificate:
            files["certificate"] = str(path.parent / user_path(bmc.certificate))
        for key, file in files.items():
            if not is_file(Path(file)):
                raise SpecError(f"{path}: {key} of {bmc.node}", f"got {file}, wanted: an existing file")
        if Path(files["password_file"]).stat().st_mode & _PRIVATE:
            raise SpecError(f"{files['password_file']} holds a password", "others may read it", "chmod 600 the file")
        bmcs.append(bmc.model_copy(update=files))
    return tuple(bmcs)


def named_bmcs() -> tuple[Bmc, ...]:
    """The controllers in the file named by the environment variable; none if it is not set."""
    path = os.environ.get(BMCS_VARIABLE)
    return load_bmcs(Path(path)) if path else ()


def bmc_watts(bmc: Bmc) -> float:
    """The watts that a machine draws now at its plug; Unavailable if its controller does not report them."""
    password = Path(bmc.password_file).read_text().strip()
    remember(password)
    return _ipmi(bmc, password) if bmc.protocol == "ipmi" else _redfish(bmc, password)


def _ipmi(bmc: Bmc, password: str) -> float:
    program, *question = DCMI_ARGV
    where = ["-I", "lanplus", "-H", bmc.address, *(["-p", str(bmc.port)] if bmc.port else []), "-U", bmc.user, "-E"]
    suite = ["-C", str(bmc.cipher_suite)] if bmc.cipher_suite else []
    try:
        # Pass the password in the environment: every user of this machine may read a command line.
        output = process.run(
            [program, *where, *suite, *question], env={"IPMI_PASSWORD": password}, timeout_s=_ASK_S
        ).stdout
    except CommandFailed as error:
        raise Unavailable(f"the BMC of {bmc.node} does not answer", error.stderr[-500:]) from error
    return dcmi_watts(output)


def _redfish(bmc: Bmc, password: str) -> float:
    """Read the resource Power of a chassis."""
    try:
        import sushy
        from sushy.auth import BasicAuth
        from sushy.exceptions import SushyError
    except ImportError:
        raise Unavailable(
            "sushy is not installed", "needed to read watts through Redfish", "pip install 'cephlab[power]'"
        ) from None
    address = bmc.address if bmc.port is None else f"{bmc.address}:{bmc.port}"
    url = f"{'http' if bmc.insecure else 'https'}://{address}"
    try:
        root = sushy.Sushy(
            url,
            auth=BasicAuth(bmc.user, password),
            verify=bmc.certificate or True,
            server_side_retries=1,  # with 0, sushy tries an absent machine three times, two seconds apart
            connect_timeout=_ASK_S,
            read_timeout=_ASK_S,
        )
        powers: dict[str, Any] = {
            chassis.identity: chassis.power.json
            for chassis in root.get_chassis_collection().get_members()
            if "Power" in chassis.json and bmc.chassis in (None, chassis.identity)
        }
    except (SushyError, OSError) as error:
        raise Unavailable(f"the BMC of {bmc.node} does not answer", str(error)) from error
    if len(powers) != 1:
        got = f"chassis that report power: {', '.join(sorted(powers)) or 'none'}"
        raise Unavailable(f"not exactly one chassis of {bmc.node} reports watts", got, "name one: chassis = ...")
    return redfish_watts(json.dumps(*powers.values()))
