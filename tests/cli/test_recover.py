"""`predict --recover`: a recovery time for any profile, with the limit that its hardware is held to."""

import json

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.tuning.profilefile import find_profile
from cephlab.tuning.recovery import recovery_time


@pytest.mark.slow
def test_a_recovery_time_is_printed_with_its_limit_and_derivation(world: World) -> None:
    arguments = ["predict", "--profile", "ampere-altra-4n", "--recover", "4500 GB"]
    shown = CliRunner().invoke(app, arguments, obj=world)
    recovery = json.loads(CliRunner().invoke(app, [*arguments, "--json"], obj=world).stdout)["recovery"]
    made = recovery_time(find_profile("ampere-altra-4n", world.home.profiles), 4.5e12)

    assert recovery["seconds"] == pytest.approx(made.seconds)
    assert recovery["at_most_s"] >= 2 * made.seconds
    assert f"in {made.seconds:,.0f} s" in shown.stdout
    assert "rate by writing disks" in shown.stdout
    assert recovery["derivation"][-1].startswith("limit: ")


def test_what_is_no_number_of_bytes_is_refused(world: World) -> None:
    shown = CliRunner().invoke(app, ["predict", "--profile", "ampere-altra-4n", "--recover", "much"], obj=world)

    assert shown.exit_code == 2
    assert "--recover: 'much' is not a size" in shown.stderr


def test_more_than_a_node_holds_is_refused(world: World) -> None:
    shown = CliRunner().invoke(app, ["predict", "--profile", "ampere-altra-4n", "--recover", "100 PB"], obj=world)

    assert shown.exit_code == 2
    assert "--recover: got 100 PB, wanted: at most 19.2 TB, the data disks of its largest node" in shown.stderr


@pytest.mark.parametrize(("said", "data_bytes"), [("4T", 4 << 40), ("4TiB", 4 << 40), ("4 TB", 4e12), ("4096", 4096)])
def test_a_size_is_written_as_elsewhere_on_the_command_line_or_as_in_a_profile(
    world: World, said: str, data_bytes: float
) -> None:
    asked = ["explain", "--profile", "kunpeng920", "--data", said, "--json"]
    made = json.loads(CliRunner().invoke(app, asked, obj=world).stdout)["prediction"]
    assert made["shape"]["data_bytes"] == data_bytes
