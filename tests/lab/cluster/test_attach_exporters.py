"""Exporters of a cluster that exists: which are found, what is scraped, and what is left when the run is over."""

import http.server
import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.cluster.attach.exporters import Candidate, candidates, tells, there, watching
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.inventory import Machine, Role, load_inventory

PROGRAM = """#!{python}
import http.server, sys, urllib.parse
class Page(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Page.asked += 1
        self.send_response(200 if Page.asked > {refusals} else 503)
        self.end_headers()
        self.wfile.write(b"ready" if self.path == "/-/ready" else b"")
    def log_message(self, *words): pass
port = next(word for word in sys.argv if word.startswith("--web.listen-address")).rpartition(":")[2]
http.server.HTTPServer(("127.0.0.1", int(port)), Page).serve_forever()
"""


def machine(name: str, address: str, *roles: Role, exporter: int = 9100, inside: str = "") -> Machine:
    return Machine(name, address, inside or address, Arch.X86_64, frozenset(roles), exporter=exporter)


@contextmanager
def telling(content_type: str = "text/plain; version=0.0.4", status: int = 200) -> Iterator[str]:
    """Something that answers HTTP; yields its address and port."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/metrics" else 404)
            self.send_header("Content-Type", content_type)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_each_machine_is_asked_and_those_with_managers_and_daemons_for_theirs() -> None:
    machines = (
        machine("a", "a.example", Role.MGR, inside="192.0.2.1"),
        machine("b", "2001:db8::2", Role.OSD, exporter=9111),
        machine("c", "c.example", Role.CLIENT),
    )
    exporters = candidates(machines, {"mgr.a": "a", "osd.0": "b"})
    assert exporters == (
        Candidate("exporter", "a", ("a.example:9100", "192.0.2.1:9100")),
        Candidate("mgr", "a", ("a.example:9283", "192.0.2.1:9283")),
        Candidate("ceph-exporter", "a", ("a.example:9926", "192.0.2.1:9926")),
        Candidate("exporter", "b", ("[2001:db8::2]:9111",)),
        Candidate("ceph-exporter", "b", ("[2001:db8::2]:9926",)),
        Candidate("exporter", "c", ("c.example:9100",)),
    )


def test_what_answers_is_scraped_where_it_answers_and_the_others_are_named() -> None:
    asked = [Candidate("exporter", "a", ("1:1", "1:2")), Candidate("exporter", "b", ("2:1",))]
    jobs, silent = there([*asked, Candidate("mgr", "a", ("1:3",))], {"1:2": True, "1:3": True}.get)  # type: ignore[arg-type]
    assert jobs == {"exporter": [("1:2", "a")], "mgr": [("1:3", "a")]}
    assert silent == [asked[1]]


@pytest.mark.parametrize(
    ("content_type", "status", "told"),
    [("text/plain; version=0.0.4", 200, True), ("text/html", 200, False), ("text/plain", 404, False)],
)
def test_only_an_exporter_is_taken_for_one(content_type: str, status: int, told: bool) -> None:
    with telling(content_type, status) as address:
        assert tells(address) is told


def test_where_nothing_listens_there_is_no_exporter() -> None:
    with telling() as address:
        pass
    assert not tells(address)


def program(folder: Path, text: str = PROGRAM, *, refusals: int = 0) -> str:
    path = folder / "prometheus"
    path.write_text(text.format(python=sys.executable, refusals=refusals))
    path.chmod(0o755)
    return str(path)


def test_a_server_here_scrapes_what_is_there_and_ends_with_the_block(tmp_path: Path) -> None:
    said: list[str] = []
    with telling() as address:
        asked = [Candidate("exporter", "a", (address,)), Candidate("mgr", "a", ("127.0.0.1:1",))]
        with watching(asked, program(tmp_path), tmp_path / "kept", said.append) as watcher:
            settings = json.loads((tmp_path / "kept" / "prometheus.yml").read_text())
            (job,) = settings["scrape_configs"]
            assert job["static_configs"] == [{"targets": [address], "labels": {"node": "a"}}]
            assert watcher.api.startswith("http://127.0.0.1:")
            assert str(watcher.data) == str(tmp_path / "kept")
            port = watcher.api.removeprefix("http://").partition("/")[0]
            assert tells_ready(port)
    assert not tells_ready(port)
    assert said == ["scraping exporter of a; no answer from mgr of a at 127.0.0.1:1"]


@pytest.mark.slow
def test_a_server_that_is_not_ready_yet_is_awaited_and_its_refusals_are_closed(tmp_path: Path) -> None:
    with telling() as address:
        slow = program(tmp_path, refusals=2)
        asked = [Candidate("exporter", "a", (address,))]
        with watching(asked, slow, tmp_path / "kept", lambda _line: None) as watcher:
            assert tells_ready(watcher.api.removeprefix("http://").partition("/")[0])


def tells_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
            return bool(answer.read())
    except urllib.error.URLError:
        return False


def test_a_server_that_ends_at_once_is_the_lab_s_trouble_with_its_words(tmp_path: Path) -> None:
    fails = program(tmp_path, "#!/bin/sh\necho bad flag\nexit 1\n")
    with (
        telling() as address,
        pytest.raises(LabBroken, match="bad flag"),
        watching([Candidate("exporter", "a", (address,))], fails, tmp_path / "kept", lambda _line: None),
    ):
        pass


def test_a_cluster_without_any_exporter_is_refused_with_what_was_asked(tmp_path: Path) -> None:
    with (
        pytest.raises(SpecError, match="no machine of the cluster has an exporter") as refused,
        watching([Candidate("exporter", "a", ("127.0.0.1:1",))], "true", tmp_path / "kept", lambda _line: None),
    ):
        pass
    assert "exporter of a at 127.0.0.1:1" in refused.value.detail
    assert not (tmp_path / "kept").exists()


def test_the_port_of_a_machine_s_exporter_is_in_the_inventory(tmp_path: Path) -> None:
    path = tmp_path / "inventory.toml"
    hosts = "".join(
        f'\n[[hosts]]\nname = "{name}"\naddress = "{name}"\nroles = ["osd"]\n{more}'
        for name, more in (("a", ""), ("b", "exporter = 9200\n"))
    )
    path.write_text(f'architecture = "x86_64"\nexporter = 9101\n{hosts}')
    assert [each.exporter for each in load_inventory(path).machines] == [9101, 9200]
