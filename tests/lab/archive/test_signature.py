"""Signatures of single files: who signed, what does not count, and a key that would have to ask is refused."""

import shutil
from pathlib import Path

import pytest

from cephlab.lab.archive.signature import sign, signer
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.process import run

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


def key_of(folder: Path, name: str, *, passphrase: str = "", purpose: str = "cephlab-archive") -> tuple[Path, Path]:
    """A new private key, and the file of signers that has its owner alone, for one purpose."""
    path, signers = folder / name, folder / f"{name}.signers"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", str(path)])
    signers.write_text(f'{name}@example.com namespaces="{purpose}" {path.with_suffix(".pub").read_text()}')
    return path, signers


def signed(folder: Path, key: Path) -> tuple[Path, Path]:
    """A file and its signature."""
    file, signature = folder / "file", folder / "file.sig"
    file.write_bytes(b"message")
    signature.write_bytes(sign(b"message", key))
    return file, signature


def test_a_signature_is_by_its_signer_and_of_its_file(tmp_path: Path) -> None:
    key, signers = key_of(tmp_path, "ann")
    _, others = key_of(tmp_path, "bob")
    file, signature = signed(tmp_path, key)
    assert signer(file, signature, signers) == "ann@example.com"
    assert signer(file, signature, others) is None
    file.write_bytes(b"another message")
    assert signer(file, signature, signers) is None


def test_a_signer_for_another_purpose_does_not_count(tmp_path: Path) -> None:
    key, signers = key_of(tmp_path, "ann", purpose="file")
    assert signer(*signed(tmp_path, key), signers) is None


@pytest.mark.parametrize("missing", [0, 1])
def test_a_file_or_a_signature_that_is_missing_is_signed_by_nobody(tmp_path: Path, missing: int) -> None:
    key, signers = key_of(tmp_path, "ann")
    both = signed(tmp_path, key)
    both[missing].unlink()
    assert signer(*both, signers) is None


def test_a_missing_file_of_signers_is_told(tmp_path: Path) -> None:
    key, _ = key_of(tmp_path, "ann")
    with pytest.raises(SpecError, match="none cannot be read"):
        signer(*signed(tmp_path, key), tmp_path / "none")


def test_nobody_is_asked_for_a_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a desktop would have a window for it, whoever waits for a gate would not know that it waits."""
    key, _ = key_of(tmp_path, "ann", passphrase="secret")
    window = tmp_path / "window"
    window.write_text("#!/bin/sh\necho secret\n")
    window.chmod(0o700)
    monkeypatch.setenv("SSH_ASKPASS", str(window))
    monkeypatch.setenv("DISPLAY", ":0")
    with pytest.raises(SpecError, match="ann cannot sign") as error:
        sign(b"message", key)
    assert "passphrase" in error.value.detail
