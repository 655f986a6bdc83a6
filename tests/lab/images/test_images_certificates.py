"""An image has the bundle of certificates that a maintainer script would have made."""

from pathlib import Path

from cephlab.lab.images import build


def test_certificates_become_one_bundle(tmp_path: Path) -> None:
    mozilla = tmp_path / "usr/share/ca-certificates/mozilla"
    mozilla.mkdir(parents=True)
    (mozilla / "B.crt").write_text("second")
    (mozilla / "A.crt").write_text("first\n")
    for name in ("passwd", "group"):
        master = tmp_path / f"usr/share/base-passwd/{name}.master"
        master.parent.mkdir(parents=True, exist_ok=True)
        master.write_text("root:*:0:0:root:/root:/bin/bash\n")
    build.complete(tmp_path)
    assert (tmp_path / "etc/ssl/certs/ca-certificates.crt").read_text() == "first\nsecond\n"
