"""Download corpora once into the user's cache: checksums verified, archives unpacked, folders
complete or absent.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.atomic import lock
from dialog.data.reading.archives import unpack
from dialog.data.reading.download_sources import DOWNLOADS, DownloadSource, RemoteFile, all_files
from dialog.errors import UserError

if TYPE_CHECKING:
    from requests import RequestException

TIMEOUT = (5, 30)
"""Timeouts in seconds: for connecting, and for each read."""
CHUNK = 2**16


def corpus_folder(corpus: str, path: str | None, root: Path) -> Path | None:
    """Return the folder of a corpus: `path`, else `$DIALOG_DATA/<corpus>`, else `<root>/<corpus>`
    for downloads.

    None for a corpus without download source if neither `path` nor `DIALOG_DATA` is set.
    """
    if path:
        return Path(path)
    own = Path(data) / corpus if (data := os.environ.get("DIALOG_DATA")) else None
    if corpus in DOWNLOADS and not (own and own.exists()):
        return root / corpus
    return own


def ensure_downloaded(corpus: str, folder: Path | None, root: Path) -> None:
    """Download a corpus if `folder` is its download folder and does not exist.

    A folder appears by a rename, complete. After an interruption the files that were already
    complete are kept. One of several processes downloads, the others wait. `DIALOG_OFFLINE=1`
    forbids downloads.

    Raises:
        UserError: with instructions; the corpus needs a manual download, is unreachable, or has a
            wrong checksum.
    """
    if corpus not in DOWNLOADS or folder != root / corpus or folder.is_dir():
        return
    source = DOWNLOADS[corpus]
    manual = manual_instructions(corpus, source)
    if not source.automatic:
        raise UserError(f"{corpus} ({source.licence}) cannot be downloaded automatically; {manual}")
    if is_offline():
        raise UserError(f"{corpus} is missing and DIALOG_OFFLINE forbids downloading it; {manual}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with lock(root / f".{corpus}.lock", wait=True):
            if not folder.is_dir():
                _download(corpus, source, folder)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written ({error}); set DIALOG_CACHE to another folder"
        ) from error


def is_offline() -> bool:
    """Return whether `DIALOG_OFFLINE` forbids downloads."""
    return os.environ.get("DIALOG_OFFLINE", "0") not in ("", "0")


def manual_instructions(corpus: str, source: DownloadSource) -> str:
    """Return how a user can provide the corpus."""
    return (
        f"get it from {source.page}, so that a folder DIR holds {source.holds}, and set"
        f" data.path=DIR (or DIALOG_DATA to the folder that has it as {corpus})"
    )


def _download(corpus: str, source: DownloadSource, folder: Path) -> None:
    from tqdm import tqdm

    tqdm.write(
        f"downloading {corpus} from {source.page}; licence: {source.licence}", file=sys.stderr
    )
    partial = folder.with_name(f".{corpus}.partial")
    ready = partial / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    files = all_files(corpus, source)
    bar = tqdm(files, corpus, disable=None, leave=False)
    paths = [_download_file(corpus, source, file, partial / "files") for file in bar]
    for file, path in zip(files, paths, strict=True):
        if file.name:
            (ready / file.name).parent.mkdir(parents=True, exist_ok=True)
            path.replace(ready / file.name)
        else:
            unpack(path, file.members, ready)
    ready.replace(folder)
    shutil.rmtree(partial, ignore_errors=True)


def _download_file(corpus: str, source: DownloadSource, file: RemoteFile, folder: Path) -> Path:
    """Download a file with the right checksum from the first address that has it."""
    errors = []
    for address in file.addresses:
        try:
            return retrieve(address, file.checksum, folder)
        except UserError as error:
            errors.append(str(error))
    raise UserError(f"{corpus}: {'; '.join(errors)}; {manual_instructions(corpus, source)}")


def retrieve(address: str, checksum: str, folder: Path) -> Path:
    """Download a file to ``<folder>/<checksum>/<name>``, and return this path.

    Raises:
        UserError: the address is unreachable, or the file has another checksum.
    """
    import pooch
    from requests import RequestException
    from tqdm import tqdm

    name = address.rpartition("/")[2]
    pooch.get_logger().setLevel("WARNING")
    bar = tqdm(desc=name, total=1, unit="B", unit_scale=True, disable=None, leave=False)
    loader = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT)
    try:
        with bar:
            path = Path(
                pooch.retrieve(
                    address, known_hash=None, fname=name, path=folder / checksum, downloader=loader
                )
            )
    except RequestException as error:
        raise UserError(f"{address} cannot be downloaded ({_reason(error)})") from error
    actual = checksum_of(path, checksum)
    if actual != checksum:
        path.unlink()
        raise UserError(
            f"{address} has the checksum {actual} instead of {checksum}; the file was removed"
        )
    return path


def _reason(error: RequestException) -> str:
    """Return the cause in a few words; the libraries' own messages have several lines."""
    from requests import ConnectionError, HTTPError, Timeout

    if isinstance(error, HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    if isinstance(error, Timeout):
        return "timeout"
    return (
        "no connection"
        if isinstance(error, ConnectionError)
        else f"{type(error).__name__}: the transfer broke off"
    )


def checksum_of(path: Path, expected: str) -> str:
    """Return SHA-256 or, if expected, git's object id: the SHA-1 of `blob <size>`, a zero byte and
    the content.
    """
    digest = (
        hashlib.sha256()
        if len(expected) == 64
        else hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    )
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            digest.update(part)
    return digest.hexdigest()
