"""Watts that management controllers tell from outside a machine: by DCMI through ipmitool, by Redfish through sushy."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cephlab.lab.base import process
from cephlab.lab.base.errors import CommandFailed, NotInstalled, SpecError, Unavailable
from cephlab.lab.base.redaction import remember
from cephlab.lab.spec.inventory import matching
from cephlab.lab.spec.specfile import TomlTable, load_model, refuse_twice
from cephlab.lab.telemetry.power import DCMI_ARGV, dcmi_watts, redfish_watts

BMCS_VARIABLE = "CEPHLAB_BMCS"
"""Environment variable with the path of the file that names the machines' management controllers."""
MACHINE = "machine"
"""Stands for the one machine that several nodes of a lab share."""

_ASK_S = 20.0
_PRIVATE = 0o077


class Bmc(TomlTable):
    """A management controller. node: of the cluster, or `machine` for the one that several nodes share.

    password_file: on this machine, its owner's alone, beside the file unless absolute. cipher_suite: of IPMI; without
    it what ipmitool takes. chassis: of Redfish, by its Id; without it the only one that tells watts. certificate: what
    its TLS is trusted by, as PEM; without it this machine's own certificates.
    """

    node: str
    protocol: Literal["ipmi", "redfish"]
    address: Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9.:_-]*", "a name or an address")]
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    user: Annotated[str, matching(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", "a user's name")]
    password_file: str
    cipher_suite: Annotated[int, Field(ge=1, le=17)] | None = None
    chassis: str | None = None
    certificate: str | None = None
    insecure: bool = False

    @model_validator(mode="after")
    def _sound(self) -> "Bmc":
        if self.protocol == "ipmi" and (self.chassis or self.certificate or self.insecure):
            raise ValueError("chassis, certificate and insecure are Redfish's; protocol: got ipmi")
        if self.protocol == "redfish" and self.cipher_suite:
            raise ValueError("cipher_suite is IPMI's; protocol: got redfish")
        return self


class _BmcFile(TomlTable):
    bmc: Annotated[tuple[Bmc, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _sound(self) -> "_BmcFile":
        refuse_twice("bmc", [f"{each.node} by {each.protocol}" for each in self.bmc])
        return self


def load_bmcs(path: Path) -> tuple[Bmc, ...]:
    """What a file names; SpecError names file and key, also for a password that others may read. Contacts nothing."""
    read = load_model(path, _BmcFile, what="a list of management controllers", hint="see docs/power.md for the keys")
    found = []
    for each in read.bmc:
        files = {"password_file": str(path.parent / Path(each.password_file).expanduser())}
        if each.certificate:
            files["certificate"] = str(path.parent / Path(each.certificate).expanduser())
        for key, file in files.items():
            if not Path(file).is_file():
                raise SpecError(f"{path}: {key} of {each.node}", f"got {file}, wanted: an existing file")
        if Path(files["password_file"]).stat().st_mode & _PRIVATE:
            raise SpecError(f"{files['password_file']} is for its owner alone", "others may read it", "chmod 600")
        found.append(each.model_copy(update=files))
    return tuple(found)


def named_bmcs() -> tuple[Bmc, ...]:
    """What the file of the environment variable names; none without it."""
    path = os.environ.get(BMCS_VARIABLE)
    return load_bmcs(Path(path)) if path else ()


def bmc_watts(bmc: Bmc) -> float:
    """What a machine takes now at its plug; Unavailable where its controller does not say."""
    password = Path(bmc.password_file).read_text().strip()
    remember(password)
    return _ipmi(bmc, password) if bmc.protocol == "ipmi" else _redfish(bmc, password)


def _ipmi(bmc: Bmc, password: str) -> float:
    program, *question = DCMI_ARGV
    where = ["-I", "lanplus", "-H", bmc.address, *(["-p", str(bmc.port)] if bmc.port else []), "-U", bmc.user, "-E"]
    suite = ["-C", str(bmc.cipher_suite)] if bmc.cipher_suite else []
    try:
        # By the environment: everybody on this machine may read a command line.
        said = process.run(
            [program, *where, *suite, *question], env={"IPMI_PASSWORD": password}, timeout_s=_ASK_S
        ).stdout
    except CommandFailed as error:
        raise Unavailable(f"the BMC of {bmc.node} does not answer", error.stderr[-500:]) from error
    return dcmi_watts(said)


def _redfish(bmc: Bmc, password: str) -> float:
    """By the resource Power of a chassis."""
    try:
        import sushy
        from sushy.auth import BasicAuth
        from sushy.exceptions import SushyError
    except ImportError:
        raise NotInstalled({"sushy": "pip install 'cephlab[power]'"}, "it reads watts by Redfish") from None
    address = bmc.address if bmc.port is None else f"{bmc.address}:{bmc.port}"
    url = f"{'http' if bmc.insecure else 'https'}://{address}"
    try:
        root = sushy.Sushy(
            url,
            auth=BasicAuth(bmc.user, password),
            verify=bmc.certificate or True,
            server_side_retries=1,  # with 0, sushy asks a machine that is not there three times, two seconds apart
            connect_timeout=_ASK_S,
            read_timeout=_ASK_S,
        )
        told: dict[str, Any] = {
            each.identity: each.power.json
            for each in root.get_chassis_collection().get_members()
            if "Power" in each.json and bmc.chassis in (None, each.identity)
        }
    except (SushyError, OSError) as error:
        raise Unavailable(f"the BMC of {bmc.node} does not answer", str(error)) from error
    if len(told) != 1:
        got = f"chassis that tell power: {', '.join(sorted(told)) or 'none'}"
        raise Unavailable(f"the watts of {bmc.node} are of no one chassis", got, "name one: chassis = ...")
    return redfish_watts(json.dumps(*told.values()))
