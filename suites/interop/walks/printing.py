"""Prints a walk as one file that anybody can run on their own cluster, without this project."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from cephlab.suites.interop.walks.walk import Wanted

INSIDE = Path(__file__).with_name("inside")
_RUN = 'if __name__ == "__main__":\n    sys.exit(main(Side, STEPS, SETTINGS))\n'


def program(
    kind: str, steps: Sequence[Wanted] = (), *, about: str = "", settings: Mapping[str, str] | None = None
) -> str:
    """The source of a program that serves a side or takes these steps.

    kind: `rados`, `rbd`, `s3`, `cephfs` (through libcephfs) or `mounted` (CephFS through the kernel).
    about: the text of its first comment. settings: its default settings, none of which may be secret.
    """
    replay = (INSIDE / "replay.py").read_text()
    side = "\n\n".join(part.read_text() for part in sorted(INSIDE.glob(f"{kind}_*.py")))
    return "\n".join(
        [
            "#!/usr/bin/env python3",
            f"# {about or f'Serves a side of a walk over {kind}.'}",
            "# How to run it is described below. A step: side, operation, arguments, and the wanted answer.",
            "\n".join(["STEPS = [", *(f"    {entry_of(wanted)}," for wanted in steps), "]"]),
            "",
            replay,
            "",
            side,
            f"SETTINGS.update({dict(settings or {})!r})",
            _RUN,
        ]
    )


def entry_of(wanted: Wanted) -> str:
    """A step as a Python literal, because JSON's null, true and false are not Python."""
    step = wanted.step
    return repr((step.side, step.operation, json.loads(json.dumps(dict(step.arguments))), wanted.answer))
