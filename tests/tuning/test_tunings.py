"""The tuning files that ship with cephlab, and what a tuning file may not say."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.tunables.settings import Kind, Setting
from cephlab.tuning.named import load, names, read

GOOD = """
title = "t"
paper = "p"
[[settings]]
kind = "sysctl"
key = "vm.swappiness"
value = "0"
source = "12.3"
"""


def written(folder: Path, text: str, name: str = "one.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", names())
def test_every_shipped_tuning_reads_and_names_its_sources(name: str) -> None:
    tuning = load(name)
    assert tuning.paper
    assert tuning.settings
    assert all(setting.source for setting in tuning.settings)


def test_every_kind_of_setting_is_among_those_shipped() -> None:
    assert {setting.kind for name in names() for setting in load(name).settings} == set(Kind)


def test_the_altra_nodes_have_all_of_the_papers_sysctls() -> None:
    sysctls = {setting.key: setting.value for setting in load("altra-host").settings if setting.kind is Kind.SYSCTL}
    assert len(sysctls) == 20
    assert sysctls["net.ipv4.ip_local_port_range"] == "8192 65535"
    assert sysctls["net.core.rmem_default"] == "33554431"


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    tuning = load(str(written(tmp_path, GOOD)))
    assert tuning.name == "one"
    assert tuning.settings == (Setting(Kind.SYSCTL, "vm.swappiness", "0", "12.3"),)
    assert tuning.settings[0].title == "sysctl vm.swappiness = 0"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('color = "red"\n', "color: unknown key"),
        ('[[settings]]\nkind = "sysctl"\nkey = "vm.x"\nvalue = "1"\nsource = "s"\nunit = "B"\n', "unit: unknown key"),
        ('[[settings]]\nkind = "sysctl"\nkey = "vm.x"\nvalue = 1\nsource = "s"\n', "settings.1.value: got 1"),
        ('[[settings]]\nkind = "sysctl"\nkey = "vm.x"\nsource = "s"\n', "value is missing"),
        ('[[settings]]\nkind = "sysctl"\nkey = "vm.x"\nvalue = "1"\n', "settings.1.source: missing"),
        ('[[settings]]\nkind = "sysctl"\nkey = "vm.swappiness"\nvalue = "1"\nsource = "s"\n', "more than once: sysctl"),
        ('[[settings]]\nkind = "sysctl"\nkey = "../etc"\nvalue = "1"\nsource = "s"\n', "does not fit kind sysctl"),
        ('[[settings]]\nkind = "sysfs"\nkey = "/sys/../etc/x"\nvalue = "1"\nsource = "s"\n', "does not fit kind sysfs"),
        ('[[settings]]\nkind = "sysfs"\nkey = "/etc/passwd"\nvalue = "1"\nsource = "s"\n', "does not fit kind sysfs"),
        ('[[settings]]\nkind = "swap"\nkey = "all"\nvalue = "on"\nsource = "s"\n', "swap can only be 'off', got 'on'"),
        ('[[settings]]\nkind = "mtu"\nkey = "cluster"\nvalue = "big"\nsource = "s"\n', "number of bytes, got 'big'"),
        ('[[settings]]\nkind = "ceph"\nkey = "a_b"\nvalue = "1"\nsource = "s"\n', "section: kind ceph needs it"),
        (
            '[[settings]]\nkind = "ceph"\nsection = "disk"\nkey = "a_b"\nvalue = "1"\nsource = "s"\n',
            "section: got 'disk', wanted one of",
        ),
        ('[[settings]]\nkind = "registry"\nkey = "a"\nvalue = "1"\nsource = "s"\n', "got 'registry', wanted"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_key(tmp_path: Path, change: str, said: str) -> None:
    # A key of the top level goes before the tables.
    text = change + GOOD if not change.startswith("[[") else GOOD + change
    path = written(tmp_path, text)
    with pytest.raises(SpecError) as caught:
        read(path)
    assert str(path) in caught.value.what
    assert said in caught.value.detail


def test_a_file_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is not TOML"):
        read(written(tmp_path, "title ="))


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(SpecError) as caught:
        load("altra")
    assert "altra-ceph, altra-host" in caught.value.detail


DOC = (Path(__file__).resolve().parents[2] / "docs" / "tuning.md").read_text()


def test_the_document_lists_the_tunings_that_there_are() -> None:
    table = DOC[DOC.index("| name | from |") :].split("\n\n")[0].splitlines()[2:]
    assert sorted(row.split("`")[1] for row in table) == names()


def test_the_example_of_the_document_is_a_tuning(tmp_path: Path) -> None:
    example = DOC[DOC.index("```toml\n") + 8 :].split("```")[0]
    assert [setting.kind for setting in read(written(tmp_path, example)).settings] == [Kind.SYSCTL, Kind.CEPH]
