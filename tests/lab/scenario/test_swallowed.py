"""A suite that drops a broad error without a word is refused, with the line; one that says what it caught is not."""

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.scenario.scenario import refuse_swallowing
from cephlab.suites.resilience import SCENARIOS


def suite(folder: Path, handler: str) -> Callable[..., Any]:
    """The function of a scenario whose module has a handler."""
    path = folder / "topic.py"
    path.write_text(f"from contextlib import suppress\n\ndef run(stage):\n    try:\n        stage()\n    {handler}\n")
    spec = importlib.util.spec_from_file_location("topic", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return partial(module.run, 1)


SWALLOWING = (
    "except Exception:\n        pass",
    "except:\n        pass",
    "except (ValueError, LabError):\n        ...",
    "except errors.CephTrouble as error:\n        'it happens'",
    "finally:\n        pass\n    with suppress(OSError, errors.LabError):\n        stage()",
)


@pytest.mark.parametrize("handler", SWALLOWING)
def test_a_broad_error_that_is_dropped_is_refused(tmp_path: Path, handler: str) -> None:
    with pytest.raises(SpecError, match="swallows errors") as refused:
        refuse_swallowing(suite(tmp_path, handler))
    assert "topic.py:6: " in refused.value.detail or "topic.py:8: " in refused.value.detail


@pytest.mark.parametrize(
    "name",
    ["BaseException", "Exception", "AssertionError", "LabError", "LabBroken", "CephTrouble", "NotReached"],
)
def test_each_error_that_says_only_that_something_is_wrong_is_broad(tmp_path: Path, name: str) -> None:
    handlers = f"except (OSError, {name}):\n        pass\n    with contextlib.suppress({name}):\n        stage()"
    with pytest.raises(SpecError) as refused:
        refuse_swallowing(suite(tmp_path, handlers))
    path = tmp_path / "topic.py"
    assert refused.value.detail.splitlines() == [
        f"{path}:6: except {', '.join(sorted((name, 'OSError')))}",
        f"{path}:8: contextlib.suppress({name})",
    ]


@pytest.mark.parametrize(
    "handler",
    [
        "except ValueError:\n        pass",
        "except Exception as error:\n        stage(error)",
        "except CephTrouble:\n        return False",
        "except LabError:\n        raise",
        "finally:\n        pass\n    with suppress(FileNotFoundError):\n        stage()",
    ],
)
def test_an_error_that_is_meant_or_answered_may_be_caught(tmp_path: Path, handler: str) -> None:
    assert not swallows(suite(tmp_path, handler))


def test_a_function_without_a_source_is_not_read() -> None:
    scope: dict[str, Any] = {}
    exec("def run(stage):\n    stage()\n", scope)
    assert not swallows(scope["run"])


def test_the_projects_own_suites_swallow_nothing() -> None:
    assert not [scenario.name for scenario in SCENARIOS if swallows(scenario.run)]


def swallows(run: Callable[..., Any]) -> bool:
    try:
        refuse_swallowing(run)
    except SpecError:
        return True
    return False
