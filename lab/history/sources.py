"""Refuses an observation that cannot fail because `got` and `wanted` come from the same place in the source."""

import ast
import linecache
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from cephlab.lab.base.errors import SpecError

_HINT = "take got= from the cluster, and wanted= from the scenario's own data"


def refuse_same_source(caller: FrameType, what: str, got: Any, wanted: Any) -> None:
    """SpecError if `got` is a literal, the same expression as `wanted`, or the same list object as `wanted`.

    caller: the frame that calls `observe`.
    """
    reason = _reason(caller.f_code, caller.f_lasti)
    if not reason and got is wanted and isinstance(got, list | dict | set | bytearray):
        reason = "got and wanted are the same object"
    if reason:
        where = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        raise SpecError(f"an observation that cannot fail: {what}", f"{where}: {reason}", _HINT)


@cache
def _reason(code: CodeType, instruction: int) -> str:
    """Why a call of `observe` cannot fail, from its source; empty if it can fail, or if there is no source."""
    sides = _sides(code, instruction)
    if not {"got", "wanted"} <= sides.keys():
        return ""
    got, wanted = ast.unparse(sides["got"]), ast.unparse(sides["wanted"])
    if isinstance(sides["got"], ast.Constant):
        return f"got={got} is a literal"
    # A call may return something else the second time, so it counts as two sources.
    if got == wanted and not any(isinstance(node, ast.Call) for node in ast.walk(sides["got"])):
        return f"got and wanted are both {got}"
    return ""


def _sides(code: CodeType, instruction: int) -> dict[str, ast.expr]:
    """The keyword arguments of the call at an instruction: name -> expression."""
    line, end_line, column, end_column = next(islice(code.co_positions(), instruction // 2, None))
    if line is None or end_line is None or column is None or end_column is None:
        return {}
    lines = [text.encode() for text in linecache.getlines(code.co_filename)[line - 1 : end_line]]
    if not lines:
        return {}
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return {}
    keywords = call.keywords if isinstance(call, ast.Call) else []
    return {keyword.arg: keyword.value for keyword in keywords if keyword.arg}
