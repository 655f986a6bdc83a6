"""CBT's plans and ceph.conf as jobs: products, pools, depths, what a release lacks, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cephlab.lab.base.errors import SpecError
from cephlab.lab.jobs.cbt import import_cbt
from cephlab.lab.jobs.cephconf import read_conf
from cephlab.lab.jobs.jobfile import Job, job_to_toml, load_job
from cephlab.suites.job import PAPERS
from cephlab.suites.job.blocks import settings_of

HERE = Path(__file__).parent
FIO = "benchmarks:\n  librbdfio:\n    time: 60\n    vol_size: 1024\n    op_size: 4096\n    mode: [read]\n"


def read(text: str) -> Job:
    return import_cbt(text, name="plan", source="plan.yaml")


def test_the_shipped_job_is_what_is_made_of_the_papers_plan() -> None:
    shipped = load_job(next(path for path in PAPERS if path.stem == "incerta"))
    made = import_cbt(HERE.joinpath("incerta.yaml").read_text(), name="incerta", source=shipped.source)
    assert made == shipped


def test_lists_mean_every_combination() -> None:
    job = load_job(next(path for path in PAPERS if path.stem == "incerta"))
    settings = list(settings_of(job, job.blocks[0]))
    assert len(settings) == 6 * 3
    randrw = next(each for each in settings if each.name == "librbdfio-randrw-4k")
    assert (randrw.volumes, randrw.size_bytes, randrw.seconds, randrw.loads) == (2, 128 << 30, 300, ((1, 32),))
    assert randrw.more == {"rwmixread": "50"}
    assert next(each for each in settings if each.name == "librbdfio-read-4096k").more == {}
    assert job.databases[0].threads == (1, 32, 80, 100, 116, 152)
    assert job.benches[0].modes == ("write", "seq")


def test_neither_hosts_nor_users_nor_paths_are_copied() -> None:
    text = (
        "cluster:\n  user: planted\n  head: 10.1.2.3\n  clients: [a.planted, b.planted]\n  conf_file: /planted\n" + FIO
    )
    written = job_to_toml(read(text))
    assert "planted" not in written
    assert "10.1.2.3" not in written
    assert read(text).blocks[0].volumes == (2,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("benchmarks:\n  hsbench:\n    size: 1\n", "line 2: benchmark 'hsbench'"),
        (FIO + "    cache: 3\n", "line 7: key 'cache' of librbdfio"),
        (FIO.replace("[read]", "[trim]"), "blocks.0.pattern.0: got 'trim'"),
        (FIO.replace("4096", "many"), "line 5: op_size cannot be imported\ngot 'many'"),
        (FIO.replace("4096", "[0]"), "line 5: op_size"),
        (FIO + "    pool_profile: rbd\n", "pool of librbdfio: got 'rbd'"),
        (FIO + "    total_iodepth: 9\n    volumes_per_client: [2]\n", "line 7: total_iodepth"),
        (FIO + "pool_profiles:\n  p: {replication: erasure, erasure_profile: x}\n", "line 8: pool profile 'p'"),
        (
            FIO + "erasure_profiles:\n  x: {erasure_k: 4}\n",
            "line 8: erasure profile 'x' cannot be imported\ngot no erasure_m",
        ),
        ("parts: 3\n" + FIO, "line 1: part 'parts'"),
        ("a: &a [1]\nb: *a\n", "line 2: an alias"),
        ("a: [", "plan.yaml is not YAML\nline 1, column"),
        ("a: \0", "plan.yaml is not YAML\nspecial characters are not allowed"),
        ("[" * 5000 + "]" * 5000, "plan.yaml is not YAML\nits lists and mappings are nested too deeply"),
        ("", "plan.yaml is empty"),
        ("- 1\n", "line 1: the file"),
        ("cluster: {user: a}\n", "wanted: at least one load"),
    ],
)
def test_what_is_not_known_is_refused_with_key_and_line(text: str, words: str) -> None:
    with pytest.raises(SpecError) as refusal:
        read(text)
    assert words in f"{refusal.value.what}\n{refusal.value.detail}"


def test_pools_have_copies_or_shards() -> None:
    profiles = "erasure_profiles:\n  ec62: {erasure_k: 6, erasure_m: 2}\npool_profiles:\n"
    profiles += "  a: {pg_size: 64, pgp_size: 64, replication: 2}\n  b: {replication: erasure, erasure_profile: ec62}\n"
    bench = "benchmarks:\n  radosbench: {op_size: 4096, write_only: True, concurrent_procs: 2, pool_profile: b}\n"
    job = read("cluster:\n  clients: [x, y]\n" + profiles + bench)
    assert [(pool.name, pool.kind.size, pool.kind.k) for pool in job.pools] == [("a", 2, 0), ("b", 8, 6)]
    assert (job.benches[0].modes, job.benches[0].processes) == (("write",), (4,))


@pytest.mark.slow
@given(st.integers(1, 8), st.lists(st.integers(1, 64), min_size=1, max_size=4))
def test_a_total_depth_is_shared_by_the_volumes(volumes: int, each: list[int]) -> None:
    totals = ", ".join(str(depth * volumes) for depth in each)
    job = read(FIO + f"    volumes_per_client: [{volumes}]\n    total_iodepth: [{totals}]\n")
    assert job.blocks[0].depth == tuple(each)


CONF = """
[global]
    osd pool default size = 1
  keyring = /planted/keyring
auth cluster required = none
filestore-merge-threshold = 40
osd max scrubs = 16
[client]
rbd cache = true
[osd.3]
host = planted
"""


def test_a_conf_is_read_without_places_and_with_what_a_release_lacks() -> None:
    conf = read_conf(CONF, "ceph.conf", {"osd_pool_default_size", "osd_max_scrubs", "rbd_cache"}, "reef")
    assert conf.options == {"osd_pool_default_size": "1", "osd_max_scrubs": "16", "rbd_cache": "true"}
    assert conf.notes == [
        "ceph.conf: not copied: auth_cluster_required, keyring",
        "ceph.conf: reef does not have filestore_merge_threshold",
        "ceph.conf: sections of single daemons are ignored: osd.3",
    ]
    assert "planted" not in str(conf)
    job = import_cbt(FIO, name="p", source="p", conf=conf)
    assert job.options["osd_max_scrubs"] == "16"
    assert "planted" not in job_to_toml(job)


@pytest.mark.parametrize(
    "line",
    [
        "key = AQplanted==",
        "rgw keystone admin password = planted",
        "rgw_keystone_admin_token = planted",
        "rgw_ldap_secret = /planted",
        "rgw crypt s3 kms encryption keys = testkey-1=planted",
        "rgw_sts_key = planted",
        "rgw_opa_token = planted",
        "rgw_barbican_url = http://planted",
        "rgw frontends = beast ssl_private_key=/planted",
        "plugin dir = /planted",
        "mon_host_override = planted",
    ],
)
def test_no_secret_and_no_place_of_a_conf_comes_along_though_the_release_has_the_setting(line: str) -> None:
    name = line.partition(" =")[0].replace(" ", "_")
    conf = read_conf(f"[client]\n{line}\nrbd cache = true\n", "ceph.conf", {name, "rbd_cache"}, "reef")
    assert (conf.options, conf.notes) == ({"rbd_cache": "true"}, [f"ceph.conf: not copied: {name}"])


def test_settings_whose_names_only_resemble_a_secrets_are_taken() -> None:
    names = ("osd_deep_scrub_keys", "mon_sync_max_payload_keys", "rgw_swift_token_expiration", "rgw_verify_ssl")
    conf = read_conf("[global]\n" + "".join(f"{name} = 7\n" for name in names), "ceph.conf", names, "reef")
    assert list(conf.options) == list(names)


def test_without_an_image_nothing_is_said_to_lack() -> None:
    conf = read_conf(CONF, "ceph.conf", None, "reef")
    assert "filestore_merge_threshold" in conf.options
    assert "without an image of reef" in conf.notes[-1]
    with pytest.raises(SpecError, match="is not a ceph"):
        read_conf("size = 1", "c", None, "reef")


@pytest.mark.parametrize(("text", "line"), [("fsid = 1\n", 1), ("[global]\nfsid = 1\nkey: s3cret\n", 3)])
def test_the_line_of_a_ceph_conf_that_is_none_is_named_and_not_shown(text: str, line: int) -> None:
    with pytest.raises(SpecError, match=r"ceph\.conf is not a ceph\.conf") as refusal:
        read_conf(text, "ceph.conf", None, "reef")
    assert refusal.value.detail.startswith(f"line {line}: wanted: ")
    assert "s3cret" not in refusal.value.detail
