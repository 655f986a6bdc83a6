"""Write an OCI image archive that names its architecture, which `docker load` and `podman load` both take."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from cephlab.lab.images.image import KEY_LABEL, Image

_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_NO_DATE = "1970-01-01T00:00:00Z"  # equal images must give equal archives


def write_archive(target: Path, layer: Path, image: Image) -> None:
    """Assemble an OCI layout around one uncompressed layer, with manifest.json for engines that know only Docker's."""
    with layer.open("rb") as file:
        layer_digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = _json(_config(image, layer_digest))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST_TYPE,
            "config": _descriptor(_CONFIG_TYPE, _sha256(config), len(config)),
            "layers": [_descriptor(_LAYER_TYPE, layer_digest, layer.stat().st_size)],
        }
    )
    docker_manifest = [
        {
            "Config": _blob(_sha256(config)),
            "RepoTags": [image.oci_name],
            "Layers": [_blob(layer_digest)],
        }
    ]
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json(_index(image, manifest)))
        _add(archive, "manifest.json", _json(docker_manifest))
        _add(archive, _blob(_sha256(config)), config)
        _add(archive, _blob(_sha256(manifest)), manifest)
        entry = tarfile.TarInfo(_blob(layer_digest))
        entry.size = layer.stat().st_size
        with layer.open("rb") as file:
            archive.addfile(entry, file)


def _config(image: Image, layer_digest: str) -> dict[str, Any]:
    return {
        "created": _NO_DATE,
        "architecture": image.arch.debian,
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["/usr/sbin/init"],
            "Labels": {KEY_LABEL: image.key, "cephlab.release": image.release},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": _NO_DATE, "created_by": "cephlab"}],
    }


def _index(image: Image, manifest: bytes) -> dict[str, Any]:
    entry = _descriptor(_MANIFEST_TYPE, _sha256(manifest), len(manifest)) | {
        "platform": {"architecture": image.arch.debian, "os": "linux"},
        "annotations": {
            "io.containerd.image.name": f"docker.io/{image.oci_name}",
            "org.opencontainers.image.ref.name": image.key[:12],
        },
    }
    return {"schemaVersion": 2, "mediaType": _INDEX_TYPE, "manifests": [entry]}


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
