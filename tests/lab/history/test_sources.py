"""An observation that cannot fail is refused where it is noted, with the line that notes it."""

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import History, Recorder

SEEN = {"size": 3}


def recorder() -> Recorder:
    return History().recorder("suite.topic")


def test_a_value_beside_itself_is_refused() -> None:
    size = 3
    with pytest.raises(SpecError, match="an observation that cannot fail: size") as refused:
        recorder().observe("size", got=size, wanted=size)
    assert "test_sources.py:" in refused.value.detail
    assert "got and wanted are both size" in refused.value.detail
    with pytest.raises(SpecError, match="size"):
        recorder().observe(
            "size",
            got=SEEN["size"],
            wanted=SEEN["size"],
        )


def test_a_literal_is_nothing_that_was_seen() -> None:
    with pytest.raises(SpecError) as refused:
        recorder().observe("state", got="up", wanted="up")
    assert "got='up' is a literal" in refused.value.detail


def test_a_list_under_two_names_is_one_source() -> None:
    names = ["a", "b"]
    same = names
    with pytest.raises(SpecError) as refused:
        recorder().observe("names", got=names, wanted=same)
    assert "are the same object" in refused.value.detail


def test_two_sources_are_two_sources() -> None:
    told, size, other = recorder(), 3, 3
    told.observe("size", got=size, wanted=other)
    told.observe("one reading beside another", got=len(SEEN), wanted=len(SEEN))
    told.observe("names", got=list(SEEN), wanted=["size"])
    noted = told.observe
    noted("size", got=size, wanted=other)
    assert len(told.events()) == 4


def test_a_refused_observation_leaves_nothing_behind() -> None:
    told, size = recorder(), 3
    with pytest.raises(SpecError):
        told.observe("size", got=size, wanted=size)
    assert told.events() == ()


def test_source_that_cannot_be_read_is_believed() -> None:
    told = recorder()
    exec("size = 3\ntold.observe('size', got=size, wanted=size)", {"told": told})
    assert len(told.events()) == 1


def test_a_witness_that_nothing_can_miss_is_refused() -> None:
    for least in (0, -1, float("nan")):
        with pytest.raises(SpecError, match="a witness that cannot be missing: writes"):
            recorder().witness("writes", got=3, least=least)
    told = recorder()
    told.witness("share of hits", got=0.7, least=0.5)
    assert told.events()[0].data["least"] == 0.5


def test_the_scenario_on_stage_records_under_its_own_name_alone() -> None:
    history = History()
    with history.on_stage("suite.topic"):
        history.recorder("suite.topic").step("load")
        with pytest.raises(SpecError, match="topic records under the name of another scenario") as refused:
            history.recorder("suite.other").observe("size", got=len("x"), wanted=1)
    assert "'suite.other'" in refused.value.detail
    history.recorder("suite.other").step("later")
    assert [event.scenario for event in history.events()] == ["suite.topic", "suite.other"]
