"""The interval of a prediction, its release, and the picture of the model, as a user meets them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.tuning.references import SHIPPED
from cephlab.tuning.workload import OPERATIONS

ALTRA = ("--profile", "ampere-altra-4n")


def _cephlab(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), obj=world)


def _json(world: World, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_cephlab(world, *arguments, "--json").stdout)
    return answer


@pytest.mark.slow
def test_a_picture_is_drawn_of_every_publication(world: World, tmp_path: Path) -> None:
    _cephlab(
        world,
        "validate-model",
        "--reference",
        str(SHIPPED / "ampere-altra.toml"),
        "--picture",
        str(tmp_path / "model.svg"),
    )

    assert (tmp_path / "model.svg").read_text().startswith("<svg")
    assert "micron-9200" in (tmp_path / "model.svg").read_text()


@pytest.mark.slow
def test_a_release_can_be_chosen_and_must_be_one(world: World) -> None:
    rates = [
        _json(world, "predict", *ALTRA, "--op", "randread", "--release", name)["predictions"][0]
        for name in ("pacific", "reef")
    ]
    refused = _cephlab(world, "predict", *ALTRA, "--release", "main")

    assert rates[0]["ceilings"][0]["ops_s"] < rates[1]["ceilings"][0]["ops_s"]
    assert refused.exit_code == 2
    assert "main" in refused.stderr
    assert "tentacle" in refused.stderr


@pytest.mark.slow
def test_a_prediction_has_its_interval(world: World) -> None:
    prediction = _json(world, "predict", *ALTRA, "--op", "randrw70", "--bs", "1M")["predictions"][0]
    shown = _cephlab(world, "predict", *ALTRA, "--op", "randread").output

    low, high = prediction["interval"]["ops_s"]
    assert (
        low * prediction["interval"]["factor"]
        == pytest.approx(prediction["ops_s"])
        == high / prediction["interval"]["factor"]
    )
    assert prediction["interval"]["kind"] == "mixed reads and writes"
    assert any("blocks of 1,048,576 B" in line for line in prediction["interval"]["outside"])
    assert "90 % within" in shown


def test_help_and_refusal_list_the_same_operations(world: World) -> None:
    shown = re.sub(r"[\s│]+", " ", _cephlab(world, "predict", "--help").stdout)
    refused = _cephlab(world, "predict", *ALTRA, "--op", "bananas").stderr

    for name in OPERATIONS:
        assert re.search(rf"\b{name}\b", shown)
        assert re.search(rf"\b{name}\b", refused)
