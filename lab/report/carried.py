"""What is embedded in a report: its style, its scripts, and the hashes that allow a browser to run them."""

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_HERE = files("cephlab.lab.report")
LIBRARY, LIBRARY_STYLE = "uplot/uPlot.iife.min.js", "uplot/uPlot.min.css"
"""uPlot 1.6.32 as published on npm: charts that can be zoomed, in 52 kB."""


@dataclass(frozen=True)
class Carried:
    """style: CSS; scripts: in the order in which they run."""

    style: str
    scripts: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The hashes of the scripts, for a content security policy: nothing else on the page can run."""
        digests = (hashlib.sha256(script.encode()).digest() for script in self.scripts)
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


@cache
def carried(*, charts: bool) -> Carried:
    """What a page needs, with the chart library if it has charts."""
    named = ((LIBRARY_STYLE, "page.css"), (LIBRARY, "page.js")) if charts else (("page.css",), ("page.js",))
    style, scripts = (tuple(_HERE.joinpath(name).read_text(encoding="utf-8") for name in group) for group in named)
    return Carried("\n".join(style), scripts)
