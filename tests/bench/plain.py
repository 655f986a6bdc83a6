"""A plain bring-up to compare with: step after step, Ceph's own timings, the `ceph` command for every question."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.keyring import Entity
from cephlab.lab.cluster.deploy.packages import Deployer, Deployment, plan_osds

_STEP_S = 180.0


@dataclass(frozen=True)
class PlainBringUp:
    """The order and the tools of Ceph's own vstart: monitors, manager, then each OSD until it is up."""

    deployer: Deployer

    def deploy(self) -> Deployment:
        deployer = self.deployer
        osd_hosts = sum(1 for node in deployer.spec.nodes if node.osds)
        deployment = deployer.plan(conf.safe_options(osd_hosts))
        plans = plan_osds(deployer.spec.nodes)
        entities = deployer.entities(deployment, plans)
        for host in deployer.hosts.values():
            deployer.prepare_host(deployment, host)
        monmap = deployer.build_monmap(deployment)
        self._start_monitors(deployment, monmap, entities)
        for node in deployer.spec.nodes:
            if node.mgr:
                deployer.start_service(deployment, node, f"mgr.{node.name}", entities)
        for plan in plans:
            self._ceph("osd", "new", plan.uuid, str(plan.id))
            deployer.make_store(deployment, plan, monmap, entities)
            deployment.daemons[plan.name].start()
            self._until(partial(self._osds_up, plan.id + 1), f"{plan.name} up")
        return deployment

    def make_pool(self, name: str, pg_num: int) -> None:
        self._ceph("osd", "pool", "create", name, str(pg_num))
        self._ceph("osd", "pool", "application", "enable", name, "rados")

    def wait_clean(self) -> None:
        self._until(self._clean, "HEALTH_OK and clean")

    def _start_monitors(self, deployment: Deployment, monmap: bytes, entities: dict[str, Entity]) -> None:
        for node in self.deployer.spec.mons:
            self.deployer.start_mon(deployment, node, monmap, entities)
        self._ceph("status")
        for node in self.deployer.spec.nodes:
            if node.mgr:
                address = self.deployer.hosts[node.name].address
                self._ceph("config", "set", "mgr", f"mgr/prometheus/{node.name}/server_addr", address, "--force")

    def _osds_up(self, least: int) -> bool:
        return bool(self._json("osd", "stat")["num_up_osds"] >= least)

    def _clean(self) -> bool:
        status = self._json("status")
        states = {state["state_name"]: state["count"] for state in status["pgmap"].get("pgs_by_state", ())}
        pgs = status["pgmap"].get("num_pgs", 0)
        return bool(status["health"]["status"] == "HEALTH_OK" and pgs and states.get("active+clean") == pgs)

    def _until(self, ready: Callable[[], bool], what: str) -> None:
        clock.wait(ready, bool, what=what, timeout_s=_STEP_S * self.deployer.patience, interval_s=0.2)

    def _json(self, *args: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._ceph(*args, "--format", "json"))
        return answer

    def _ceph(self, *args: str) -> str:
        host = self.deployer.client_host()
        return host.run(["ceph", "-c", str(conf.conf_path(host)), *args], timeout_s=_STEP_S).stdout
