"""No key stays in what is archived, whatever it is encoded as; what only looks like one does."""

import base64
import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_letters, digits
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cephlab.lab.base import redaction
from cephlab.lab.base.redaction import remember, without_secrets
from cephlab.lab.cluster.gateway import _user
from cephlab.lab.history.history import History

REMOVED = b"[key removed]"

Encoding = Callable[[bytes], bytes]


def escaped(write: Callable[[int], str], chars: str) -> Encoding:
    """Those characters as `write` says, the others as they are."""
    return lambda text: "".join(write(byte) if chr(byte) in chars else chr(byte) for byte in text).encode()


ODD, ALL = "+/=", ascii_letters + digits + "+/="
ESCAPES: dict[str, Encoding] = {
    "plain": lambda text: text,
    "percent": lambda text: quote(text, safe="").encode(),
    "lower percent": escaped(lambda byte: f"%{byte:02x}", ODD),
    "percent of all": escaped(lambda byte: f"%{byte:02X}", ALL),
    "percent twice": lambda text: quote(quote(text, safe=""), safe="").encode(),
    "json": escaped(lambda byte: f"\\u{byte:04x}", ODD),
    "json of all": escaped(lambda byte: f"\\u{byte:04X}", ALL),
    "json in json": escaped(lambda byte: f"\\\\u{byte:04x}", ODD),
    "json's slash": lambda text: text.replace(b"/", b"\\/"),
    "c": escaped(lambda byte: f"\\x{byte:02x}", ODD),
    "html": escaped(lambda byte: f"&#x{byte:02x};", ODD),
    "html, decimal": escaped(lambda byte: f"&#{byte};", ODD),
    "hex": lambda text: text.hex().encode(),
    "upper hex": lambda text: text.hex().upper().encode(),
    "hex dump": lambda text: text.hex(" ").encode(),
}
OF_KEYS: dict[str, Encoding] = {
    "unpadded": lambda text: text.rstrip(b"="),
    "for urls": lambda text: text.replace(b"+", b"-").replace(b"/", b"_"),
    "for urls, unpadded": lambda text: text.rstrip(b"=").replace(b"+", b"-").replace(b"/", b"_"),
    "hex of the key": lambda text: base64.b64decode(text).hex().encode(),
    "upper hex of the key": lambda text: base64.b64decode(text).hex().upper().encode(),
    "hex dump of the key": lambda text: base64.b64decode(text).hex(":").encode(),
}
OF_SECRETS: dict[str, Encoding] = {
    "base64": base64.b64encode,
    "unpadded base64": lambda text: base64.b64encode(text).rstrip(b"="),
    "base64 for urls": base64.urlsafe_b64encode,
    "base64 in a url": lambda text: quote(base64.b64encode(text), safe="").encode(),
    "base64 in json": lambda text: base64.b64encode(text).replace(b"=", b"\\u003d"),
    "base64 of a header": lambda text: base64.b64encode(b"user:" + text + b":more"),
    "base64 of another header": lambda text: base64.b64encode(b"user" + text + b"more"),
}


@st.composite
def cephx_keys(draw: st.DrawFn) -> bytes:
    kind, length = draw(st.sampled_from([(1, 16), (2, 32)]))
    seconds, nanoseconds = draw(st.integers(0, 2**32 - 1)), draw(st.integers(0, 10**9 - 1))
    secret = draw(st.binary(min_size=length, max_size=length))
    return base64.b64encode(struct.pack("<HIIH", kind, seconds, nanoseconds, length) + secret)


def no_key_at_all(raw: bytes) -> bytes:
    return base64.b64encode(b"\xff" + raw)


ordinary = st.one_of(
    st.uuids().map(lambda value: str(value).encode()),
    st.binary(min_size=32, max_size=32).map(lambda raw: raw.hex().encode()),
    st.binary(min_size=20, max_size=90).map(no_key_at_all),
    st.sampled_from(
        [b"AQ", b"Ag==", b"0100", b"key = ", b"osd.0 up", b"%41", b"\\u0041", b"AQBzyAFn", b"/var/lib/ceph", b""]
    ),
    st.text("abc \n\"'{}[]:,.%\\=+/-_ AQg0123456789", max_size=60).map(str.encode),
)
"""Digests, uuids, base64 that is no key, beginnings of one, and words; a key is not likelier than by chance."""
around = st.lists(ordinary, max_size=4).map(b" ".join)
MANY = settings(max_examples=12, deadline=None)
SOME = settings(max_examples=6, deadline=None)


def forms(key: bytes, encodings: dict[str, Encoding]) -> list[bytes]:
    return [encode(key) for encode in encodings.values()]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ESCAPES, *OF_KEYS])
@MANY
@given(key=cephx_keys(), before=around, after=around)
def test_no_form_of_a_cephx_key_stays(name: str, key: bytes, before: bytes, after: bytes) -> None:
    encodings = {**ESCAPES, **OF_KEYS}
    text = before + b" " + encodings[name](key) + b" " + after
    cleaned = without_secrets(text)
    assert cleaned == before + b" " + REMOVED + b" " + after
    assert [form for form in forms(key, encodings) if form in cleaned] == []


@MANY
@given(
    key=cephx_keys(),
    url=st.sampled_from(["percent", "json", "plain"]),
    unit=st.sampled_from([b"x", b"A", b"AQ", b"_", b"9"]),
)
def test_a_key_is_found_where_nothing_parts_it_from_what_is_around(key: bytes, url: str, unit: bytes) -> None:
    """Its own header says how long it is."""
    text = unit + ESCAPES[url](key.rstrip(b"=")) + unit
    assert without_secrets(text) == unit + REMOVED + unit


@MANY
@given(keys=st.lists(cephx_keys(), min_size=2, max_size=6), between=st.sampled_from([b"", b" ", b"\n", b","]))
def test_of_many_keys_none_stays(keys: list[bytes], between: bytes) -> None:
    assert without_secrets(between.join(keys)) == between.join([REMOVED] * len(keys))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(text=around)
def test_ordinary_text_stays_as_it_is(text: bytes) -> None:
    assert without_secrets(text) == text


@MANY
@given(key=cephx_keys(), change=st.sampled_from(["type", "length", "nanoseconds"]))
def test_base64_that_is_no_key_stays(key: bytes, change: str) -> None:
    raw = bytearray(base64.b64decode(key))
    raw[{"type": 0, "length": 10, "nanoseconds": 9}[change]] = {"type": 3, "length": 17, "nanoseconds": 0xFF}[change]
    for text in (base64.b64encode(raw), raw.hex().encode()):
        assert without_secrets(text) == text


# S3


ALNUM = ascii_letters + digits


def drawn(chars: str, length: int) -> st.SearchStrategy[str]:
    """As a generator of keys draws them: one whose characters are all the same is in ordinary text too."""
    return st.integers(0, 2**64).map(lambda seed: "".join(random.Random(seed).choices(chars, k=length)))


access_keys = drawn(ascii_letters[26:] + digits, 20)
secret_keys = drawn(ALNUM + "+/", 40)


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_KNOWN", set())


def known(*secrets: str) -> Iterator[None]:
    redaction._KNOWN.clear()
    remember(*secrets)
    yield
    redaction._KNOWN.clear()


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_known")
@pytest.mark.parametrize("name", [*ESCAPES, *OF_SECRETS])
@SOME
@given(access=access_keys, secret=secret_keys, before=around, after=around)
def test_no_form_of_a_known_s3_key_stays(name: str, access: str, secret: str, before: bytes, after: bytes) -> None:
    encodings = {**ESCAPES, **OF_SECRETS}
    for _ in known(access, secret):
        for key in (access.encode(), secret.encode()):
            text = before + b" " + encodings[name](key) + b" " + after
            cleaned = without_secrets(text)
            assert cleaned.startswith(before + b" ")
            assert cleaned.endswith(b" " + after)
            assert REMOVED in cleaned
            assert [form for form in forms(key, encodings) if form in cleaned] == []
            assert len(cleaned) <= len(before) + len(after) + len(REMOVED) + 2 + len("dXNlcjpt") * 3


def in_json(access: str, secret: str) -> str:
    return json.dumps({"keys": [{"user": "cephlab", "access_key": access, "secret_key": secret}]}, indent=2)


NAMED: tuple[Callable[[str, str], str], ...] = (
    in_json,
    lambda access, secret: json.dumps({"said": in_json(access, secret)}),
    lambda access, secret: str({"access_key": access, "secret_key": secret}),
    lambda access, secret: f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n",
    lambda access, secret: f"AWS_ACCESS_KEY_ID={access} AWS_SECRET_ACCESS_KEY='{secret}' aws s3 ls",
    lambda access, secret: f"<AccessKeyId>{access}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>",
    lambda access, secret: f"radosgw-admin user create --access-key {access} --secret-key={secret} --uid x",
    lambda access, secret: f"radosgw-admin key create --access-key={access} --secret {secret} --uid x",
    lambda access, secret: f"http://h/?access_key={access}&secret_key={quote(secret, safe='')}",
    lambda access, secret: quote(f"access_key={access}&secret_key={secret}", safe=""),
    lambda access, secret: (
        f"Authorization: AWS4-HMAC-SHA256 Credential={access}/20261121/r/s3/aws4_request, x={access[:3]}"
    ),
    lambda access, secret: f"GET /b?X-Amz-Credential={access}%2F20261121%2Fr HTTP/1.1",
    lambda access, secret: f"Authorization: AWS {access}:c2lnbmF0dXJl",
)


@pytest.mark.usefixtures("nothing_known")
@pytest.mark.parametrize("write", NAMED)
@SOME
@given(access=access_keys, secret=secret_keys)
def test_an_s3_key_goes_by_its_name_and_the_rest_stays(
    write: Callable[[str, str], str], access: str, secret: str
) -> None:
    text = write(access, secret)
    shown = {access: REMOVED.decode(), secret: REMOVED.decode(), quote(secret, safe=""): REMOVED.decode()}
    wanted = text
    for value in sorted(shown, key=len, reverse=True):
        wanted = wanted.replace(value, shown[value])
    assert without_secrets(text.encode()).decode() == wanted


@pytest.mark.usefixtures("nothing_known")
@pytest.mark.parametrize(
    "text",
    [
        "the secret key of the cluster is not shown here",
        "secret_key = config['secret_key']",
        '"access_key": null, "id": "6f1e2a34-0c4e-4a6e-9d51-0a6f6d0b7c11"',
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "AWS is a name, and access is granted to keyhole/of/the/second/door",
    ],
)
def test_words_about_keys_stay(text: str) -> None:
    assert without_secrets(text.encode()).decode() == text


@pytest.mark.usefixtures("nothing_known")
def test_what_is_too_short_to_be_a_secret_is_not_looked_for() -> None:
    remember("osd")
    assert without_secrets(b"osd.0") == b"osd.0"


class UserMaker:
    """A cluster whose tool makes up a user."""

    def __init__(self) -> None:
        self.s3_users: dict[str, dict[str, str]] = {}

    def tool(self, node: str, *argv: str) -> str:
        if argv[:3] == ("radosgw-admin", "user", "list"):
            return "[]"
        assert argv[:3] == ("radosgw-admin", "user", "create")
        return in_json(self.access, self.secret)

    access = "7TU2Z1F5O0W6GQ4R9KXB"
    secret = "sX0oB2mYc7Qw9eR4tU6iO1pA3dF5gH7jK9lZ0xC2"


@pytest.mark.usefixtures("nothing_known")
def test_keys_of_a_gateways_user_stay_nowhere(tmp_path: Path) -> None:
    maker: Any = UserMaker()
    keys = _user(maker, "n0")
    assert (keys["access_key"], keys["secret_key"]) == (maker.access, maker.secret)
    History(tmp_path / "history.jsonl").record("demo", "raised", {"detail": f"{maker.access} {quote(maker.secret)}"})
    assert '"[key removed] [key removed]"' in (tmp_path / "history.jsonl").read_text()
