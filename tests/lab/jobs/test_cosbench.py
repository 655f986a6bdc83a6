"""COSBench's plans as jobs: what is read, what is refused with its line, and that no secret comes along."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cephlab.lab.base.errors import SpecError
from cephlab.lab.jobs.cosbench import import_cosbench
from cephlab.lab.jobs.jobfile import Job, ObjectLoad, job_to_toml, load_job
from cephlab.suites.job import PAPERS

HERE = Path(__file__).parent
OP = "cprefix=b;containers=u(1,2);oprefix=o;objects=u(1,9);sizes=c(4)KB"
PREPARE = f'<workstage name="p"><work type="prepare" workers="2" config="{OP}" /></workstage>'


def plan(work: str, before: str = PREPARE, after: str = "", stage: str = 'name="m"') -> bytes:
    """A workload with one main work, which stands on line 2."""
    flow = f"<workflow>{before}\n<workstage {stage}>{work}</workstage>{after}</workflow>"
    return f'<workload name="w">{flow}</workload>'.encode()


def main(inside: str, more: str = 'runtime="10"') -> str:
    return f'<work name="Main Load" workers="8" {more}>{inside}</work>'


def operation(kind: str = "read", ratio: str = "100", config: str = OP) -> str:
    return f'<operation type="{kind}" ratio="{ratio}" config="{config}" />'


def read(text: bytes) -> Job:
    return import_cosbench(text, name="plan", source="plan.xml")


def load_of(text: bytes) -> ObjectLoad:
    return read(text).objects[0]


@pytest.mark.parametrize("path", [path for path in PAPERS if path.stem != "incerta"], ids=lambda path: path.stem)
def test_the_shipped_jobs_are_what_is_made_of_the_papers_plans(path: Path) -> None:
    shipped = load_job(path)
    made = import_cosbench(HERE.joinpath(f"{path.stem}.xml").read_bytes(), name=path.stem, source=shipped.source)
    assert made == shipped


def test_the_altra_papers_puts() -> None:
    job = read(HERE.joinpath("altra-10m-puts.xml").read_bytes())
    load = job.objects[0]
    assert (load.objects, load.buckets, load.workers) == (2000, 1, 100)
    assert load.sizes == ((10_000_000, 10_000_000, 1.0),)
    assert (load.runtime_s, load.rampup_s, load.pause_s) == (300, 60, 60)
    assert load.phases == ("fill", "run")
    said = "\n".join(job.notes)
    assert "line 9: clousuredelay is read as closuredelay" in said
    assert "line 15: cleanup (oprefix none) matches no object of a load" in said


def test_no_credential_is_copied() -> None:
    secrets = ("AKIAPLANTED", "s3cr3t/planted", "http://10.9.8.7:80", "p;lanted")
    config = f"accesskey={secrets[0]};secretkey={secrets[1]};endpoint={secrets[2]};password={secrets[3]}"
    auth = f'<auth type="swauth" config="{config}" /><storage type="s3" config="{config}" />'
    before = PREPARE.replace('config="cpre', 'driver="d" config="cpre').replace(" />", f">{auth}</work>")
    job = read(plan(main(auth + operation()), before=before).replace(b"<workflow>", f"{auth}<workflow>".encode()))
    text = job_to_toml(job)
    assert "accesskey, secretkey, endpoint, password" in text
    for secret in (*secrets, "lanted", "10.9.8.7"):
        assert secret not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (plan(main(operation("filewrite"))), "line 2: <operation> type cannot be imported\ngot 'filewrite'"),
        (plan(main(operation(ratio="60"))), "ratio of the operations cannot be imported\ngot 60, wanted: a sum of 100"),
        (plan(main(operation(ratio="-1"))), "line 2: ratio of <operation>"),
        (plan(main(operation(config=OP.replace("u(1,9)", "z(1,9)")))), "line 2: objects of <operation>"),
        (plan(main(operation(config=OP.replace("u(1,9)", "u(9,1)")))), "got 'u(9,1)', wanted: first <= last"),
        (plan(main(operation(config=OP.replace("u(1,9)", "u(1,2,3)")))), "wanted: 2 numbers in u()"),
        (plan(main(operation(config=OP.replace("KB", "KiB")))), "B, KB, MB or GB"),
        (plan(main(operation(config=OP.replace("u(1,9)", "u(0,9)")))), "line 2: objects of <operation>"),
        (plan(main(operation(config=f"{OP};hosts=3"))), "line 2: key 'hosts' of <operation>"),
        (plan(main(operation(), 'runtime="ten"')), "line 2: runtime of <work> cannot be imported\ngot 'ten'"),
        (plan(main(operation(), 'runtime="9" totalBytes="7"')), "line 2: attribute 'totalBytes' of <work>"),
        (plan(main(operation()), before=""), "line 2: a work that reads"),
        (plan(main(operation()) * 2), "line 2: a second load in one stage"),
        (plan(main(operation() + operation())), "line 2: ratio of the operations"),
        (plan(main(operation(ratio="50") * 2)), "line 2: operations of one type"),
        (plan(main("<thread />")), "line 2: element <thread> in <work>"),
        (plan('<work type="soak" workers="1" />'), "line 2: <work> type cannot be imported\ngot 'soak'"),
        (plan(main('<storage type="swift" />' + operation())), "line 2: <storage> type cannot be imported\ngot swift"),
        (plan(""), "plan.xml has no load"),
        (b"<plan />", "line 1: element <plan>"),
        (b'<workload name="w"><workflow>\n<a b="<"/>', "plan.xml is not XML\nline 2, column"),
    ],
)
def test_what_is_not_known_is_refused_with_element_and_line(text: bytes, words: str) -> None:
    with pytest.raises(SpecError) as refusal:
        read(text)
    assert words in f"{refusal.value.what}\n{refusal.value.detail}"


def test_entities_are_never_expanded() -> None:
    bomb = b'<!DOCTYPE w [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n<workload name="&b;" />'
    with pytest.raises(SpecError, match="line 1: a document type"):
        read(bomb)
    with pytest.raises(SpecError, match="a document type"):
        read(b'<!DOCTYPE w SYSTEM "file:///etc/hostname"><workload />')


def test_stages_delays_and_a_cleaning_that_fits() -> None:
    clean = f'<workstage name="c"><work type="cleanup" workers="1" config="{OP}" /></workstage>'
    wait = '<workstage name="d" closuredelay="30"><work type="delay" workers="1" /></workstage>'
    load = load_of(plan(main(operation("read", "80") + operation("delete", "20")), after=wait + clean))
    assert load.name == "main-load"
    assert load.phases == ("fill", "run", "clean")
    assert load.pause_s == 30
    assert load.mix == {"get": 80, "delete": 20}


def test_ranges_of_operations_stay_apart() -> None:
    puts = operation("write", "50", OP.replace("u(1,9)", "u(10,18)"))
    load = load_of(plan(main(operation("read", "50") + puts)))
    assert load.objects == 18
    assert load.over["put"].objects == ((10, 18, 1.0),)
    assert load.over["get"].objects == load.over["fill"].objects == ((1, 9, 1.0),)


def test_a_histogram_of_sizes_keeps_its_weights() -> None:
    config = OP.replace("c(4)KB", "h(1|64|10,64|512|90)KB")
    load = load_of(plan(main(operation("write", config=config)), before=""))
    assert load.sizes == ((1000, 64_000, 10.0), (64_000, 512_000, 90.0))
    assert load.phases == ("run",)


NUMBER = st.integers(1, 10**6)
UNIT = st.sampled_from([("B", 1), ("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("", 1)])


@pytest.mark.slow
@given(st.tuples(NUMBER, NUMBER).map(sorted), st.tuples(NUMBER, NUMBER).map(sorted), UNIT, st.sampled_from("urs"))
def test_any_range_is_read_as_it_is_written(
    over: list[int], sizes: list[int], unit: tuple[str, int], kind: str
) -> None:
    config = f"cprefix=b;objects={kind}({over[0]},{over[1]});sizes=u({sizes[0]},{sizes[1]}){unit[0]}"
    job = read(plan(main(operation("write", config=config)), before=""))
    load = job.objects[0]
    assert load.sizes == ((sizes[0] * unit[1], sizes[1] * unit[1], 1.0),)
    assert load.objects == over[1]
    put = load.over.get("put")
    assert (put.in_order if put else False) is (kind in "rs")
    assert (put.objects if put and put.objects else ((1, over[1], 1.0),)) == ((over[0], over[1], 1.0),)


@pytest.mark.slow
@given(st.lists(st.integers(0, 100), min_size=4, max_size=4))
def test_ratios_are_a_hundred_or_refused(ratios: list[int]) -> None:
    kinds = ("read", "write", "list", "delete")
    text = plan(main("".join(operation(kind, str(ratio)) for kind, ratio in zip(kinds, ratios, strict=True))))
    if sum(ratios) == 100:
        assert sum(load_of(text).mix.values()) == 100
        assert 0 not in load_of(text).mix.values()
    else:
        with pytest.raises(SpecError, match="ratio"):
            read(text)


@pytest.mark.slow
@given(st.text(alphabet="curshz()|,0123456789KMB ", max_size=24))
def test_a_selector_is_read_or_refused_and_never_breaks(text: str) -> None:
    try:
        load = load_of(plan(main(operation("write", config=f"objects=u(1,9);sizes={text}")), before=""))
    except SpecError:
        return
    assert all(0 <= least <= most and weight > 0 for least, most, weight in load.sizes)


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    for path in PAPERS:
        again = tmp_path / path.name
        again.write_text(job_to_toml(load_job(path)))
        assert load_job(again) == load_job(path)
        assert again.read_text() == path.read_text()


def test_a_second_cleaning_of_a_load_is_noted_and_ignored() -> None:
    clean = f'<workstage name="c"><work type="cleanup" workers="1" config="{OP}" /></workstage>'
    job = read(plan(main(operation("read", "100")), after=clean + clean))
    assert job.objects[0].phases == ("fill", "run", "clean")
    assert [note for note in job.notes if "second cleanup" in note]


@pytest.mark.parametrize("phases", [["run", "fill"], ["fill", "run", "clean", "clean"]])
def test_phases_that_no_load_can_run_are_refused_in_the_file(phases: list[str], tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(job_to_toml(read(plan(main(operation("read", "100"))))))
    path.write_text(path.read_text().replace("workers = ", f"phases = {phases}\nworkers = ", 1))
    with pytest.raises(SpecError, match="is not a job") as refusal:
        load_job(path)
    assert "phases: got " in refusal.value.detail


@pytest.mark.parametrize("encoding", ["moon", "gb2312"])
def test_an_encoding_that_is_not_known_is_refused(encoding: str) -> None:
    with pytest.raises(SpecError, match="in an encoding that cannot be read") as refusal:
        read(f'<?xml version="1.0" encoding="{encoding}"?><workload />'.encode())
    assert refusal.value.hint == "save it as UTF-8"
