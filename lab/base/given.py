"""Reads files that users name, and refuses those that are no text, never end, or would take all memory."""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import SpecError, unreadable

MOST_BYTES = 64 << 20
"""The largest file that people write. Histories of runs may be larger."""

MOST_DEEP = 40
"""Tables and lists inside each other. No file of the lab has more than 10."""

_KINDS = {stat.S_ISFIFO: "a pipe", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device", stat.S_ISSOCK: "a socket"}
_BITS_64 = 1 << 63
_HALF = re.compile(r"\\ud[89ab]..\\ud[c-f]..|\\(ud[89a-f]..)|\\.")
"""Escapes of JSON: of a character that takes two, of half of one, and any other."""

_EDITED = "check whether the file was edited"


def _refuse_endless(path: Path, hint: str, most_bytes: int | None) -> None:
    """SpecError if a path cannot be read as a file. most_bytes: the largest that is read; None: any.

    A pipe without a writer would never be read, and a device such as /dev/zero never ends. The pipe of `<(...)` has no
    name in a folder, and its writer has begun; not more than most_bytes are read from it.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable(path, error, hint) from error
    except ValueError as error:  # the path has a NUL
        raise SpecError(f"{str(path)!r} is not a path", str(error), hint) from None
    kind = next((name for test, name in _KINDS.items() if test(status.st_mode)), None)
    written_here = most_bytes is not None and kind == "a pipe" and not path.resolve().exists()
    if kind is not None and not written_here and not os.path.samestat(status, Path(os.devnull).stat()):
        raise SpecError(f"{path} cannot be read", f"got {kind}, wanted: a file", hint)
    if most_bytes is not None and status.st_size > most_bytes:
        raise SpecError(f"{path} is too large", f"got {status.st_size} bytes, wanted: at most {most_bytes}", hint)


def user_path(path: str | Path) -> Path:
    """The path, with the home folder in place of `~`: a shell leaves it in `--option=~/file`."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # there is no such user
        return Path(path)


def is_file(path: Path) -> bool:
    """Whether a path is a file; False also for a path that is too long or has a NUL."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, hint: str = "", *, most_bytes: int | None = MOST_BYTES) -> bytes:
    """The content of a file; SpecError if it cannot be read."""
    _refuse_endless(path, hint, most_bytes)
    try:
        with path.open("rb") as source:
            content = source.read(-1 if most_bytes is None else most_bytes + 1)
    except OSError as error:
        raise unreadable(path, error, hint) from error
    if most_bytes is not None and len(content) > most_bytes:
        raise SpecError(f"{path} is too large", f"got more than {most_bytes} bytes", hint)
    return content


def read_text(path: Path, hint: str = "", *, most_bytes: int | None = MOST_BYTES) -> str:
    """The text of a file, without the mark that some editors put before UTF-8; SpecError if it cannot be read."""
    content = read_bytes(path, hint, most_bytes=most_bytes)
    try:
        return TextIOWrapper(BytesIO(content), encoding="utf-8-sig").read()
    except UnicodeDecodeError as error:
        raise unreadable(path, error, hint) from error


def parse_json(text: str, source: object, hint: str = _EDITED) -> Any:
    """The value of a JSON text; SpecError names `source` where it is not JSON, too deep or no text that can be shown.

    source: the file, and its line where each line is a value.
    """
    try:
        value = json.loads(text)
        if "\\ud" in text.lower():
            # Half of a character that takes two cannot be printed or written.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise SpecError(f"{source} is not JSON", "it has half of a character, from \\ud800 to \\udfff", hint) from None
    except RecursionError:
        raise SpecError(f"{source} is not JSON", "its lists and objects are nested too deeply", hint) from None
    except ValueError as error:
        raise SpecError(f"{source} is not JSON", str(error), hint) from error
    return value


def json_text(value: Any, **form: Any) -> str:
    """The JSON text of a value, as `parse_json` takes it. form: for `json.dumps`.

    A byte that is not UTF-8 is half of a character in Python's text, as in a file's name. It is written as its escape.
    """
    return _HALF.sub(lambda escape: rf"\\{escape[1]}" if escape[1] else escape[0], json.dumps(value, **form))


@contextmanager
def legible(*archives: Path) -> Iterator[None]:
    """Inside the block, an event whose data lacks what is read in it is a SpecError, not an error of Python.

    An error of the code that reads it looks the same, so the hint names both.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SpecError(
            f"{' or '.join(map(str, archives))} has an event that this cephlab cannot read",
            f"{type(error).__name__}: {error}",
            "check whether its history was edited; if not, this is a defect of cephlab: CEPHLAB_DEBUG=1 shows where",
        ) from error


def outsize(raw: Any) -> str:
    """The first value in tables and lists that no model can take, as `key: got ..., wanted: ...`; empty for none.

    These are numbers beyond 64 bits, the most that TOML promises, and what is nested more than MOST_DEEP deep.
    """
    ahead: list[tuple[tuple[str, ...], Any]] = [((), raw)]
    while ahead:
        key, here = ahead.pop()
        if len(key) > MOST_DEEP:
            return f"{key[0]}: got tables or lists that are nested more than {MOST_DEEP} deep"
        if isinstance(here, int) and not -_BITS_64 <= here < _BITS_64:
            return f"{'.'.join(key)}: got a number beyond 64 bits, wanted: at most {_BITS_64 - 1}"
        parts = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list | tuple) else ()
        ahead += reversed([((*key, str(name)), part) for name, part in parts])
    return ""
