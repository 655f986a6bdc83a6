"""Finds a kept cluster of another cephlab process from its saved state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.daemon import daemon_from_json
from cephlab.lab.ceph.keyring import Entity
from cephlab.lab.cluster.deploy.packages import Deployer, Deployment
from cephlab.lab.cluster.own import STATE_SCHEMA, OwnCluster
from cephlab.lab.providers.base import Lab, Provider
from cephlab.lab.spec.specfile import spec_from_json


def load_cluster(provider: Provider, run: Run, *, progress: Progress = quiet) -> OwnCluster:
    """Find a kept cluster again; SpecError if it has no state or one of another schema."""
    try:
        raw: dict[str, Any] = json.loads(run.state_file.read_text())
    except FileNotFoundError:
        hint = f"wait for it, or remove it: cephlab down {run.id}"
        raise SpecError(f"{run.id} has no cluster yet", f"{run.state_file} is missing", hint) from None
    if raw["schema"] != STATE_SCHEMA:
        raise SpecError(f"{run.id} was made by another cephlab", f"schema {raw['schema']}, wanted {STATE_SCHEMA}")
    lab = provider.attach(run, raw["lab"])
    spec = spec_from_json(raw["spec"])
    deployment = Deployment(
        fsid=raw["fsid"],
        mon_addresses=raw["mon_addresses"],
        options=raw["options"],
        sizing=conf.Sizing(**raw["sizing"]),
        patience=float(raw["patience"]),
        admin=Entity("client.admin", _key_of(lab)),
        daemons={entry["name"]: daemon_from_json(entry, lab.hosts[entry["node"]]) for entry in raw["daemons"]},
    )
    shims = {node: Path(path) for node, path in raw["shims"].items()}
    deployer = Deployer(
        spec, lab.hosts, shims, deployment.sizing, deployment.patience, progress, raw.get("identities", {})
    )
    return OwnCluster(run, spec, provider, lab, deployment, deployer)


def _key_of(lab: Lab) -> str:
    for host in lab.hosts.values():
        if host.up():
            text = host.read(host.directory / "keyring").decode()
            return text.partition("key = ")[2].split()[0]
    raise LabBroken("every host of the cluster is down", f"hosts: {', '.join(lab.hosts)}")
