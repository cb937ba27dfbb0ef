"""Official sources of corpora, downloaded once into the user's cache: checked, unpacked, complete or absent."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.data.reading.sources import DOWNLOADS, File, Source, all_files
from dialog.data.reading.unpacking import unpack
from dialog.errors import UserError

if TYPE_CHECKING:
    from requests import RequestException

TIMEOUT = (5, 30)
"""Seconds until a connection is given up, and until one that has gone silent is."""
CHUNK = 2**16


def corpus_folder(corpus: str, given: str | None, root: Path) -> Path | None:
    """Where a corpus lies: `given`, else `$DIALOG_DATA/<corpus>`, else `<root>/<corpus>`, to be filled by `provide`.

    None for a corpus that no source is known of and that nothing says a folder for.
    """
    if given:
        return Path(given)
    own = Path(data) / corpus if (data := os.environ.get("DIALOG_DATA")) else None
    if corpus in DOWNLOADS and not (own and own.exists()):
        return root / corpus
    return own


def provide(corpus: str, folder: Path | None, root: Path) -> None:
    """Download a corpus if `folder` is where downloads lie and it is not there yet.

    A folder appears at once and complete, by a rename; files that were got before an interruption are not asked for
    again. Of several processes one downloads, the others wait for it. `DIALOG_OFFLINE=1` forbids to try.

    Raises:
        UserError: it has to be got by a person, cannot be reached, or is not what was published; with what to do.
    """
    if corpus not in DOWNLOADS or folder != root / corpus or folder.is_dir():
        return
    source = DOWNLOADS[corpus]
    if not source.automatic:
        raise UserError(f"{corpus} ({source.licence}) is not downloaded by itself; {by_hand(corpus, source)}")
    if offline():
        raise UserError(f"{corpus} is not here and DIALOG_OFFLINE forbids to download it; {by_hand(corpus, source)}")
    try:
        with _alone(root / f".{corpus}.lock"):
            if not folder.is_dir():
                _download(corpus, source, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error}); set DIALOG_CACHE to another folder") from error


def offline() -> bool:
    """Whether `DIALOG_OFFLINE` forbids to ask the network for data."""
    return os.environ.get("DIALOG_OFFLINE", "0") not in ("", "0")


def by_hand(corpus: str, source: Source) -> str:
    """What a person can do."""
    return (
        f"get it from {source.page}, so that a folder DIR holds {source.holds}, and set data.path=DIR "
        f"(or DIALOG_DATA to the folder that has it as {corpus})"
    )


def _download(corpus: str, source: Source, folder: Path) -> None:
    from tqdm import tqdm

    tqdm.write(f"downloading {corpus} from {source.page}; licence: {source.licence}", file=sys.stderr)
    partial = folder.with_name(f".{corpus}.partial")
    ready = partial / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    files = all_files(corpus, source)
    got = [_get(corpus, source, file, partial / "files") for file in tqdm(files, corpus, disable=None, leave=False)]
    for file, path in zip(files, got, strict=True):
        if file.name:
            (ready / file.name).parent.mkdir(parents=True, exist_ok=True)
            path.replace(ready / file.name)
        else:
            unpack(path, file.members, ready)
    ready.replace(folder)
    shutil.rmtree(partial, ignore_errors=True)


def _get(corpus: str, source: Source, file: File, folder: Path) -> Path:
    """A file of the right checksum, from the first address that gives it."""
    refused = []
    for address in file.addresses:
        try:
            return _retrieve(address, file.checksum, folder)
        except UserError as error:
            refused.append(str(error))
    raise UserError(f"{corpus}: {'; '.join(refused)}; {by_hand(corpus, source)}")


def _retrieve(address: str, checksum: str, folder: Path) -> Path:
    import pooch
    from requests import RequestException
    from tqdm import tqdm

    name = address.rpartition("/")[2]
    pooch.get_logger().setLevel("WARNING")
    bar = tqdm(desc=name, total=1, unit="B", unit_scale=True, disable=None, leave=False)
    loader = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT)
    try:
        with bar:
            path = Path(pooch.retrieve(address, known_hash=None, fname=name, path=folder / checksum, downloader=loader))
    except RequestException as error:
        raise UserError(f"{address} could not be got ({_reason(error)})") from error
    found = _checksum(path, checksum)
    if found != checksum:
        path.unlink()
        raise UserError(f"{address} is not what was published: checksum {found}, not {checksum}; it was removed")
    return path


def _reason(error: RequestException) -> str:
    """Why an address gave nothing; the libraries' own words go over several lines."""
    from requests import ConnectionError, HTTPError, Timeout

    if isinstance(error, HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    if isinstance(error, Timeout):
        return "no answer in time"
    return "no connection" if isinstance(error, ConnectionError) else f"{type(error).__name__}: the transfer broke off"


def _checksum(path: Path, like: str) -> str:
    """SHA-256, or git's id of the content: the SHA-1 of `blob <size>`, a zero byte and the content."""
    digest = hashlib.sha256() if len(like) == 64 else hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            digest.update(part)
    return digest.hexdigest()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a file's lock; the system gives it back when the process ends, however it ends."""
    import fcntl  # there is none on Windows

    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
