"""The service of managers."""

from collections.abc import Mapping
from pathlib import Path

from cephlab.lab.ceph import conf
from cephlab.lab.providers.host import Host
from cephlab.lab.services.service import Service

MGR_SHADOW = Path(conf.__file__).with_name("mgr_python")


class Mgr(Service):
    """A manager, with a substitute for bcrypt, because its interpreters cannot load bcrypt twice."""

    def env(self, host: Host) -> Mapping[str, str]:
        shadow = host.directory / MGR_SHADOW.stem
        host.push(MGR_SHADOW / "bcrypt.py", shadow / "bcrypt.py")
        packages = host.root / "usr/lib/python3/dist-packages"
        return {"PYTHONPATH": f"{shadow}:{packages}"}


MGR = Mgr("mgr", caps={"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"})
