"""A tuning on a machine that ssh enters: found as it is, changed by the list alone, and nothing is left there."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.home import Home
from cephlab.lab.providers.base import Images
from tests.contract.yard import Kind, Spot, machines
from tests.fake_provider import FakeProvider, providers

pytestmark = [pytest.mark.real]

KEY = "vm.swappiness"


@pytest.mark.parametrize("kind", Kind)
def test_a_machine_is_looked_at_and_what_is_set_there_is_left_alone(
    kind: Kind, home: Home, images: Images, tmp_path: Path
) -> None:
    world = World(Home(tmp_path / "home").ensure(), providers(FakeProvider()))
    # The value that is there: it is the machine that others work on too, so nothing may change.
    now = Path("/proc/sys", *KEY.split(".")).read_text().strip()
    setting = f'[[settings]]\nkind = "sysctl"\nkey = "{KEY}"\nvalue = "{now}"\nsource = "s"\n'
    (tmp_path / "mine.toml").write_text('title = "t"\npaper = "p"\n' + setting)
    with machines(kind, tmp_path / "yard", [Spot("m0")], home, images, first=180) as yard:

        def tune(verb: str, *more: str) -> Result:
            given = ["tune", verb, str(tmp_path / "mine.toml"), "--inventory", str(yard.inventory), *more, "--json"]
            return CliRunner().invoke(app, given, obj=world)

        looked = tune("check")
        assert looked.exit_code == 0, looked.output
        [finding] = json.loads(looked.stdout)["findings"]
        assert (finding["where"], finding["state"], finding["got"]) == ("m0", "set", now)

        refused = tune("apply")
        assert refused.exit_code == 2
        assert "m0, which is not on the list" in refused.output

        applied = tune("apply", "--may-break", "host:m0")
        assert applied.exit_code == 0, applied.output
        assert json.loads(applied.stdout)["counts"] == {"already": 1}
        assert json.loads(tune("revert", "--may-break", "host:m0").stdout)["restored"] == []
    assert not [path for path in world.home.runs.iterdir() if path.is_dir()]
