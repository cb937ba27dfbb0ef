"""The engine of the page, onnxruntime-web, from its package; downloaded once into the user's
cache.
"""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

from dialog.data.reading.downloads import checksum_of, is_offline, retrieve
from dialog.errors import UserError
from dialog.paths import cache as cache_folder

NAME = "onnxruntime-web"
VERSION = "1.30.0"
LICENCE = "MIT"
ADDRESS = f"https://registry.npmjs.org/{NAME}/-/{NAME}-{VERSION}.tgz"
CHECKSUM = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
SCRIPT = "ort.wasm.bundle.min.mjs"
WASM = "ort-wasm-simd-threaded.wasm"


def runtime_path() -> Path:
    """Return the path of the downloaded package."""
    return cache_folder() / NAME / CHECKSUM / ADDRESS.rpartition("/")[2]


@cache
def runtime_files() -> dict[str, bytes]:
    """Return `SCRIPT` and `WASM`; the package is downloaded if it is missing.

    Raises:
        UserError: it cannot be downloaded, or is not the pinned one; the message names its path.
    """
    path = runtime_path()
    remedy = f"get {ADDRESS} ({LICENCE} licence) and put it at {path}"
    if not path.is_file():
        if is_offline():
            raise UserError(
                f"{NAME} {VERSION} is missing and DIALOG_OFFLINE forbids downloading it; {remedy}"
            )
        try:
            retrieve(ADDRESS, CHECKSUM, cache_folder() / NAME)
        except UserError as error:
            raise UserError(f"{error}; {remedy}") from error
    elif checksum_of(path, CHECKSUM) != CHECKSUM:
        raise UserError(f"{path} has another checksum than {NAME} {VERSION}; {remedy}")
    with tarfile.open(path) as archive:
        return {name: _member(archive, f"package/dist/{name}") for name in (SCRIPT, WASM)}


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None  # the checksum says so
    return file.read()
