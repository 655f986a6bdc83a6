"""Runs the steps of a workflow's job and of the actions it uses, by the rules of GitHub that the project relies on."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@dataclass
class Job:
    """A job on one runner. env: of every step; folders: what `uses:` names -> the folder of that action.

    ran: names of the actions' steps, and the commands of others, in their order; said: what all of them printed.
    """

    temp: Path
    env: Mapping[str, str]
    folders: Mapping[str, Path]
    ran: list[str] = field(default_factory=list)
    said: str = ""
    failed: bool = False

    def run(self, steps: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
        """Run steps until one fails, then only those that ask to run nevertheless; returns outputs by id."""
        return self._steps(steps, {}, None)

    def _steps(
        self, steps: Sequence[Mapping[str, Any]], inputs: Mapping[str, str], folder: Path | None
    ) -> dict[str, dict[str, str]]:
        outputs: dict[str, dict[str, str]] = {}
        broken = False
        for step in steps:
            known = {
                **{f"inputs.{name}": value for name, value in inputs.items()},
                **{
                    f"steps.{step_id}.outputs.{name}": text
                    for step_id, own in outputs.items()
                    for name, text in own.items()
                },
                "runner.temp": str(self.temp),
                "runner.environment": "self-hosted",
                "runner.arch": "X64",
            }
            # Within an action, only its own steps count.
            if not _wanted(str(step.get("if", "")), known, failed=broken if folder else self.failed):
                continue
            before = self.failed
            outputs[step.get("id", "")] = self._one(step, known, folder)
            broken = broken or (self.failed and not before)
        return outputs

    def _one(self, step: Mapping[str, Any], known: Mapping[str, str], folder: Path | None) -> dict[str, str]:
        if "uses" in step:
            return self._action(step, known)
        self.ran.append(step.get("name", step["run"]))
        written = self.temp / "outputs"
        written.write_text("")
        environment = {
            **self.env,
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(written),
            "GITHUB_ACTION_PATH": str(folder or ""),
            **{name: filled(str(value), known) for name, value in step.get("env", {}).items()},
        }
        done = subprocess.run(
            ["bash", "-e", "-c", filled(step["run"], known)],
            env=environment,
            cwd=self.temp,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=30,
            check=False,
        )
        self.said += done.stdout
        self.failed = self.failed or done.returncode != 0
        return dict(line.split("=", 1) for line in written.read_text().splitlines())

    def _action(self, step: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, str]:
        folder = self.folders.get(step["uses"].partition("@")[0])
        if folder is None:  # somebody else's
            self.ran.append(step["uses"].partition("@")[0])
            return {}
        action = yaml.safe_load((folder / "action.yml").read_text())
        given = {name: filled(_text(value), known) for name, value in step.get("with", {}).items()}
        assert given.keys() <= action["inputs"].keys(), "GitHub only warns of an unknown input"
        inputs = {name: given.get(name, declared["default"]) for name, declared in action["inputs"].items()}
        outputs = self._steps(action["runs"]["steps"], inputs, folder)
        return {name: filled(declared["value"], _outputs(outputs)) for name, declared in action["outputs"].items()}


def _outputs(outputs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Expression -> value, for what steps have set."""
    return {f"steps.{step}.outputs.{name}": text for step, own in outputs.items() for name, text in own.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def filled(text: str, known: Mapping[str, str]) -> str:
    """A text with its expressions replaced; an output that no step has set is empty, as on GitHub."""
    return _EXPRESSION.sub(lambda match: _value(match[1], known), text)


def _value(expression: str, known: Mapping[str, str]) -> str:
    """A place, a quoted word, `format(...)`, or alternatives with `||` and `&&`."""
    value = ""
    for alternative in expression.split(" || "):
        parts = [_single(part.strip("() "), known) for part in alternative.split(" && ")]
        value = parts[-1] if all(parts) else ""
        if value:
            break
    return value


def _single(term: str, known: Mapping[str, str]) -> str:
    if term.startswith("'"):
        return term.strip("'")
    if term.startswith("format("):
        words, *values = term.removeprefix("format(").split(", ")
        return words.strip("'").format(*(_single(value, known) for value in values))
    assert re.fullmatch(r"(inputs|runner|steps\.[a-z]+\.outputs)\.[a-z0-9-]+", term), term
    return known.get(term, "")


def _wanted(condition: str, known: Mapping[str, str], *, failed: bool) -> bool:
    """Whether a step runs, for the conditions that the project's actions and pages use."""
    if condition in ("always()", "failure()"):
        return failed or condition == "always()"
    if condition.startswith("startsWith(inputs.lab, 'lxd')"):
        return not failed and known["inputs.lab"].startswith("lxd") and "'github-hosted'" not in condition
    assert condition == "", condition
    return not failed
