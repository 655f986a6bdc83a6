"""Files that users name: what never ends, is no text or is no JSON is refused, with the file's name."""

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import (
    MOST_DEEP,
    is_file,
    json_text,
    legible,
    outsize,
    parse_json,
    read_bytes,
    read_text,
    user_path,
)
from cephlab.lab.spec.specfile import load_toml


def pipe(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path)


def huge(path: Path) -> None:
    with path.open("wb") as sink:
        sink.truncate(1 << 40)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (pipe, "got a pipe, wanted: a file"),
        (lambda path: path.symlink_to("/dev/zero"), "got a device, wanted: a file"),
        (huge, f"got {1 << 40} bytes, wanted: at most"),
        (loop, "Too many levels of symbolic links"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: None, "No such file or directory"),
    ],
)
def test_what_never_ends_or_cannot_be_read_is_refused(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    path = tmp_path / "given"
    make(path)
    for read in (read_text, read_bytes):
        with pytest.raises(SpecError, match="given") as refused:
            read(path, "the hint")
        assert why in refused.value.detail
        assert refused.value.hint == "the hint"


def piped(*argv: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A command, and its output as a shell gives it for `<(...)`."""
    writer = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    return writer, Path(f"/dev/fd/{writer.stdout.fileno()}")


def test_the_home_folder_is_put_in_place_of_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/at/home")
    assert [str(user_path(name)) for name in ("~/x", Path("~"), "/x/~", "x", "~nosuch-user/x")] == [
        "/at/home/x",
        "/at/home",
        "/x/~",
        "x",
        "~nosuch-user/x",
    ]


def test_a_pipe_of_the_shell_is_read() -> None:
    writer, path = piped("sh", "-c", "echo a; sleep 0.1; echo b")
    with writer:
        assert read_text(path) == "a\nb\n"
    writer, path = piped("echo", "a = 1")
    with writer:
        assert load_toml(path) == {"a": 1}


def test_a_pipe_of_the_shell_that_does_not_end_is_refused() -> None:
    for most_bytes, why in ((1000, "got more than 1000 bytes"), (None, "got a pipe")):
        writer, path = piped("yes")
        with writer:
            with pytest.raises(SpecError) as refused:
                read_text(path, most_bytes=most_bytes)
            writer.kill()
        assert why in refused.value.detail


def test_what_is_no_text_says_where(tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(b"ab\xffc")
    with pytest.raises(SpecError) as refused:
        read_text(path)
    assert refused.value.detail == "it is not text: byte 0xff at position 2 is not UTF-8"


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b"], ids=["long", "NUL"])
def test_a_path_that_no_file_can_have_is_refused(name: str) -> None:
    assert not is_file(Path(name))
    with pytest.raises(SpecError):
        read_text(Path(name))


def test_the_mark_before_text_and_line_ends_of_other_systems_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2\r\n")
    assert read_text(path) == "a = 1\nb = 2\n"
    assert read_text(Path("/dev/null")) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "nested too deeply"),
        ('"\\udfff"', "half of a character"),
        ("9" * 5000, "digits"),
    ],
    ids=["nothing", "deep", "half", "digits"],
)
def test_what_is_no_json_is_refused_with_its_source(text: str, why: str) -> None:
    with pytest.raises(SpecError, match="events:3 is not JSON") as refused:
        parse_json(text, "events:3")
    assert why in refused.value.detail


def test_a_character_that_takes_two_halves_is_read() -> None:
    assert parse_json('"\\ud83d\\ude00"', "x") == "\U0001f600"


def test_bytes_that_are_not_utf8_are_written_as_words() -> None:
    name = b"menu-\xe9 \\ud8 ".decode("utf-8", "surrogateescape")
    written = json_text({"name": name + "é\U0001f600", "half": "\ud83d", "word": r"\udcff"})
    assert parse_json(written, "x") == {
        "name": "menu-\\udce9 \\ud8 é\U0001f600",
        "half": "\\ud83d",
        "word": "\\udcff",
    }


def test_an_event_that_cannot_be_read_may_be_of_any_archive_or_a_defect_of_cephlab() -> None:
    with pytest.raises(SpecError, match=r"^old or new has an event") as refused, legible(Path("old"), Path("new")):
        raise KeyError("data")
    assert refused.value.detail == "KeyError: 'data'"
    assert "a defect of cephlab" in refused.value.hint


def nested(deep: int) -> object:
    return {"in": nested(deep - 1)} if deep else 1


def test_numbers_and_nesting_beyond_every_model_are_named() -> None:
    assert outsize({"nodes": [{"count": 1 << 63}]}).startswith("nodes.0.count: got a number beyond 64 bits, wanted:")
    assert outsize({"a": 1 << 63, "b": 1 << 63}).startswith("a: "), "the first of several"
    assert outsize({"a": nested(MOST_DEEP)}).startswith("a: got tables or lists that are nested")
    assert outsize({"a": [-(1 << 63), (1 << 63) - 1, True, 1e308], "b": nested(MOST_DEEP - 1)}) == ""


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_content_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "given"
    path.write_bytes(content)
    with suppress(SpecError):
        parse_json(read_text(path), path)
