"""Kinds of daemons: each is whole, and a spec that names another is refused."""

from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.providers.host import Host
from cephlab.lab.services import CORE, SERVICES, daemons_on, refuse_unknown, role_sets
from cephlab.lab.services.rgw import RGW
from cephlab.lab.services.service import Service
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import ClusterSpec, Misfit, Node
from cephlab.lab.spec.specfile import load_spec

KEY = "AQAAAAAAAAAAABAAMDEyMzQ1Njc4OWFiY2RlZg=="  # type 0, 16 bytes; nobody's


def host() -> Host:
    made = SimpleNamespace(
        name="n0",
        address="127.1.2.3",
        directory=PurePosixPath("/run/n0"),
        root=PurePosixPath("/"),
        arch=Arch.X86_64,
        emulated=False,
        push=lambda *_: None,
    )
    return cast("Host", made)


def spec(*services: str) -> ClusterSpec:
    return ClusterSpec((Node("n0", Arch.X86_64, mon=True, mgr=True, services=services),))


@pytest.mark.parametrize("service", SERVICES.values(), ids=lambda service: service.kind)
def test_a_service_is_of_programs_that_its_image_has(service: Service) -> None:
    assert service.argv(host(), "a")[0] in read_recipes().find("reef", Arch.X86_64, (service.role_set,)).programs


@pytest.mark.parametrize("service", SERVICES.values(), ids=lambda service: service.kind)
def test_only_a_client_of_cephs_has_an_entity(service: Service) -> None:
    section = conf.render("fsid", {}, {}, {service.entity("a"): service.section(host(), "a")}).decode()
    assert bool(service.caps) == (service.kind not in ("exporter", "haproxy", "prometheus"))
    assert not service.caps or service.new_entity("a", KEY).caps == service.caps
    assert section.count(f"[{service.entity('a')}]") == bool(service.section(host(), "a"))


def test_a_node_may_have_two_of_a_kind() -> None:
    assert list(daemons_on(spec("rgw", "rgw.b", "mds").nodes[0])) == ["rgw.n0", "rgw.n0.b", "mds.n0"]


def test_a_number_of_a_kind_is_spelt_out_and_each_has_a_port_of_its_own() -> None:
    node = spec("rgw:3", "exporter").nodes[0]
    assert list(daemons_on(node)) == ["rgw.n0", "rgw.n0.b", "rgw.n0.c", "exporter.n0"]
    assert [RGW.listens(name.partition(".")[2]) for name in daemons_on(node)][:3] == [7480, 7481, 7482]
    assert SERVICES["mds"].listens("n0.second") == 0


@pytest.mark.parametrize("count", ["0", "27", "", "two"])
def test_a_count_that_is_none_is_refused(count: str) -> None:
    with pytest.raises(Misfit, match="is not a valid count of daemons"):
        spec(f"rgw:{count}")


@pytest.mark.parametrize(
    ("services", "words"), [(("rgw.second",), "must end in one letter"), (("haproxy",), "needs service rgw")]
)
def test_what_could_not_listen_or_serve_is_refused(services: tuple[str, ...], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        refuse_unknown(spec(*services))


def test_an_image_gets_what_its_services_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SERVICES, "demo", Service("demo", role_set="database"))
    assert role_sets(spec("rgw")) == ("ceph",)
    assert role_sets(spec("mds", "demo"), ("ceph", "hypervisor")) == ("ceph", "hypervisor", "database")


@pytest.mark.parametrize("name", ["rgv", *CORE])
def test_a_service_that_nobody_knows_is_refused_by_its_key(name: str) -> None:
    with pytest.raises(SpecError, match="there is no service") as refused:
        refuse_unknown(spec("rgw", name))
    assert f"nodes.0.services: got '{name}', wanted: rgw, mds, exporter, haproxy, prometheus" in str(refused.value)


@pytest.mark.parametrize("names", [("rgw", "rgw"), ("../rgw",), ("rgw.",), ("rgw:2", "rgw.b")])
def test_a_service_is_named_once_and_as_a_path_can_be(names: tuple[str, ...]) -> None:
    with pytest.raises(Misfit) as refused:
        spec(*names)
    assert refused.value.key.startswith("nodes.0.services.")


def test_a_spec_file_names_services(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text('[[nodes]]\nname = "n0"\narch = "x86_64"\nmon = true\nmgr = true\nservices = ["rgw", "exporter"]\n')
    assert load_spec(path).nodes[0].services == ("rgw", "exporter")


@pytest.mark.parametrize(
    ("code", "known", "said"),
    [
        (0, ("n0", "n1"), ""),
        (0, ("n1",), "rgw.n0 is not in the service map"),
        (1, ("n0",), "rgw.n0 does not answer HTTP"),
    ],
    ids=["serves", "has not all its threads yet", "silent"],
)
def test_a_gateway_serves_once_it_answers_and_the_manager_knows_it(
    code: int, known: tuple[str, ...], said: str
) -> None:
    asked: list[str] = []

    def run(argv: tuple[str, ...], **_: object) -> SimpleNamespace:
        asked.extend(argv)
        return SimpleNamespace(code=code)

    daemons = {str(gid): {"metadata": {"id": ident}, "addr": ""} for gid, ident in enumerate(known)}
    dump = {"services": {"rgw": {"daemons": {"summary": "", **daemons}}}}
    client = SimpleNamespace(host=SimpleNamespace(run=run), mon=lambda _: dump)
    assert RGW.missing(cast("RadosClient", client), host(), "n0") == said
    # The client asks: the gateway's own host may be emulated, and Python slow to start there.
    assert "http://127.1.2.3:7480" in asked[-1]


@pytest.mark.parametrize(
    ("kind", "url"), [("exporter", ":9100'"), ("haproxy", ":8480'"), ("prometheus", ":9090/-/ready'")]
)
@pytest.mark.parametrize("code", [0, 1])
def test_a_daemon_that_is_not_cephs_serves_once_it_answers_http(kind: str, url: str, code: int) -> None:
    asked: list[str] = []

    def run(argv: list[str], **_: object) -> SimpleNamespace:
        asked.append(argv[-1])
        return SimpleNamespace(code=code)

    client = cast("RadosClient", SimpleNamespace(host=SimpleNamespace(run=run)))
    said = f"{kind}.n0 does not answer HTTP" if code else ""
    assert SERVICES[kind].missing(client, host(), "n0") == said
    assert f"'http://127.1.2.3{url}" in asked[0]
    assert list(SERVICES[kind].metadata(client)) == []
