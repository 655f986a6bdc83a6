"""Signatures of archives, made and verified with OpenSSH. `ssh-keygen` can verify them without cephlab."""

from pathlib import Path

from cephlab.lab.base.errors import CommandFailed, SpecError
from cephlab.lab.base.process import Result, run

NAMESPACE = "cephlab-archive"
"""Namespace of every signature. A signature by the same key for another purpose is not accepted."""

_ENV = {"SSH_ASKPASS_REQUIRE": "never"}


def sign(message: bytes, key: Path) -> bytes:
    """Sign with a private key. For a public key, ssh-agent signs with the private key that it holds.

    SpecError if the key cannot sign without asking for input.
    """
    try:
        return _ssh_keygen("sign", "-f", str(key), message=message).stdout_bytes
    except CommandFailed as error:
        hint = "use a private key without a passphrase, or the public key of one that ssh-agent holds"
        raise SpecError(f"{key} cannot sign", error.stderr.strip(), hint) from None


def signer(signed: Path, signature: Path, signers: Path) -> str | None:
    """Who signed a file; None if it has no signature by anybody in `signers`.

    signers: a file in the format that ssh-keygen(1) describes under ALLOWED SIGNERS.
    """
    if not signers.is_file():
        raise SpecError(f"{signers} cannot be read", "--signers names a file of allowed signers", "see docs/archive.md")
    if not (signed.is_file() and signature.is_file()):
        return None
    message, options = signed.read_bytes(), ("-f", str(signers), "-s", str(signature))
    for name in _ssh_keygen("find-principals", *options, message=message, check=False).stdout.splitlines():
        if _ssh_keygen("verify", *options, "-I", name, message=message, check=False).code == 0:
            return name
    return None


def _ssh_keygen(what: str, *arguments: str, message: bytes, check: bool = True) -> Result:
    argv = ["ssh-keygen", "-Y", what, "-n", NAMESPACE, *arguments]
    return run(argv, stdin=message, env=_ENV, check=check)
