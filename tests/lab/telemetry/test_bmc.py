"""Management controllers: the file that names them, and Redfish by the answers that the library sushy ships."""

import base64
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.telemetry.bmc import BMCS_VARIABLE, Bmc, bmc_watts, load_bmcs, named_bmcs

ENTRY = f"Basic {base64.b64encode(b'cephlab:secret').decode()}"
ENCLOSURE, BLADE = "/redfish/v1/Chassis/MultiBladeEncl", "/redfish/v1/Chassis/Blade1"


def sample(name: str) -> dict[str, Any]:
    """An answer that sushy ships for its own tests."""
    sushy = pytest.importorskip("sushy")
    text = (Path(sushy.__file__).parent / "tests/unit/json_samples" / f"{name}.json").read_text()
    read: dict[str, Any] = json.loads(text)
    return read


def pages(consumed_w: float | None) -> dict[str, dict[str, Any]]:
    """A service with an enclosure and a blade. Sushy's own answer on power tells power supplies, and no consumption."""
    collection = sample("chassis_collection")
    collection["Members"] = [{"@odata.id": ENCLOSURE}, {"@odata.id": BLADE}]
    enclosure = {**sample("chassis"), "Id": "MultiBladeEncl", "Power": {"@odata.id": f"{ENCLOSURE}/Power"}}
    told = {} if consumed_w is None else {"PowerControl": [{"MemberId": "0", "PowerConsumedWatts": consumed_w}]}
    return {
        "/redfish/v1": sample("root"),
        "/redfish/v1/Chassis": collection,
        ENCLOSURE: enclosure,
        BLADE: sample("chassis"),
        f"{ENCLOSURE}/Power": {**sample("power"), **told},
    }


Serve = Callable[[dict[str, dict[str, Any]]], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves pages on loopback to whoever has the password; returns the port."""
    servers = []

    def begin(known: dict[str, dict[str, Any]]) -> int:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = known.get(self.path.rstrip("/"))
                # The root of a service is for everybody (DSP0266).
                entered = self.path.rstrip("/") == "/redfish/v1" or self.headers.get("Authorization") == ENTRY
                body = json.dumps(page).encode()
                self.send_response(200 if page and entered else 404 if entered else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing is logged."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return int(server.server_address[1])

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("secret\n")
    path.chmod(0o600)
    return path


def redfish(port: int, password: Path, **more: Any) -> Bmc:
    return Bmc(
        node="a",
        protocol="redfish",
        address="127.0.0.1",
        port=port,
        user="cephlab",
        password_file=str(password),
        insecure=True,
        **more,
    )


@pytest.mark.slow
def test_redfish_tells_what_a_chassis_takes(serve: Serve, password: Path) -> None:
    port = serve(pages(1290.5))
    assert bmc_watts(redfish(port, password)) == 1290.5
    assert bmc_watts(redfish(port, password, chassis="MultiBladeEncl")) == 1290.5
    with pytest.raises(Unavailable, match="not exactly one chassis"):
        bmc_watts(redfish(port, password, chassis="Blade1"))


def test_a_service_without_consumption_says_no_watts(serve: Serve, password: Path) -> None:
    with pytest.raises(Unavailable, match="Redfish reports no watts"):
        bmc_watts(redfish(serve(pages(None)), password))


def test_a_service_that_refuses_or_is_not_there_is_named(serve: Serve, password: Path) -> None:
    port = serve(pages(100.0))
    password.write_text("wrong\n")
    for where in (port, 1):
        with pytest.raises(Unavailable, match="the BMC of a does not answer"):
            bmc_watts(redfish(where, password))


GOOD = """
[[bmc]]
node = "n0"
protocol = "ipmi"
address = "192.0.2.7"
user = "cephlab"
password_file = "password"
"""


def test_the_file_names_controllers_with_paths_beside_it(
    tmp_path: Path, password: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bmcs.toml"
    path.write_text(GOOD)
    (bmc,) = load_bmcs(path)
    assert (bmc.node, bmc.password_file) == ("n0", str(password))
    monkeypatch.delenv(BMCS_VARIABLE, raising=False)
    assert named_bmcs() == ()
    monkeypatch.setenv(BMCS_VARIABLE, str(path))
    assert named_bmcs() == (bmc,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("ipmi", "snmp"), "bmc.0.protocol"),
        (('user = "cephlab"', 'user = "-E"'), "bmc.0.user"),
        (('"password"', '"nowhere"'), "wanted: an existing file"),
        (('user = "cephlab"', 'user = "cephlab"\nchassis = "1"'), "are for Redfish only"),
        (('user = "cephlab"', 'user = "cephlab"\npassword = "x"'), "bmc.0.password"),
        (("", ""), None),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    tmp_path: Path, password: Path, change: tuple[str, str], said: str | None
) -> None:
    path = tmp_path / "bmcs.toml"
    path.write_text(GOOD.replace(*change) if said else GOOD + GOOD)
    with pytest.raises(SpecError) as caught:
        load_bmcs(path)
    assert (said or "more than once") in str(caught.value)


def test_a_password_that_others_may_read_is_refused(tmp_path: Path, password: Path) -> None:
    password.chmod(0o644)
    (tmp_path / "bmcs.toml").write_text(GOOD)
    with pytest.raises(SpecError, match="holds a password"):
        load_bmcs(tmp_path / "bmcs.toml")


def test_without_sushy_the_hint_is_the_extra_and_no_package_of_debian(
    password: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sushy", None)
    with pytest.raises(Unavailable, match="sushy is not installed") as refused:
        bmc_watts(redfish(443, password))
    assert refused.value.hint == "pip install 'cephlab[power]'"
