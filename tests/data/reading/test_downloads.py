"""Downloads from a local server: results, errors, interruption and concurrent processes."""

from __future__ import annotations

import hashlib
import io
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dialog.data.reading import download_sources, downloads
from dialog.data.reading.download_sources import DownloadSource, RemoteFile
from dialog.data.reading.downloads import corpus_folder, ensure_downloaded
from dialog.errors import UserError

TEXT = b"Where is the tea ?\nBehind the bread .\n" * 4000


class Server:
    """A web server that records its requests; some paths fail in a chosen way."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.bodies: dict[str, bytes] = {}
        self.truncated: set[str] = set()
        self.without_length: set[str] = set()
        self.slow: set[str] = set()
        self.redirects: dict[str, str] = {}
        self.proceed = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                if self.path in server.redirects:
                    self.send_response(302)
                    self.send_header("Location", server.redirects[self.path])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = server.bodies.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                if self.path not in server.without_length:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                half = len(body) // 2
                self.wfile.write(body[:half])
                self.wfile.flush()
                if self.path in server.slow:
                    server.proceed.wait(30)
                if self.path not in server.truncated:
                    self.wfile.write(body[half:])

            def handle(self) -> None:
                with suppress(ConnectionError):  # the client was killed
                    super().handle()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.root = f"http://127.0.0.1:{self.http.server_port}"

    def serve(self, path: str, body: bytes) -> str:
        """Serve a body; return its address."""
        self.bodies[path] = body
        return self.root + path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A running server; downloads are allowed."""
    monkeypatch.setenv("DIALOG_OFFLINE", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.proceed.set()
    server.http.shutdown()
    server.http.server_close()
    thread.join()


Get = Callable[..., Path]


@pytest.fixture
def get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Get:
    """``get(file, ...)`` downloads a corpus of these files and returns its folder."""

    def get(*files: RemoteFile) -> Path:
        monkeypatch.setattr(downloads, "DOWNLOADS", {"tea": source(*files)})
        root = tmp_path / "downloads"
        ensure_downloaded("tea", root / "tea", root)
        return root / "tea"

    return get


def source(*files: RemoteFile) -> DownloadSource:
    return DownloadSource("CC BY 4.0", "https://example.org/tea", "lines.txt", files=files)


def file(address: str, content: bytes, name: str = "lines.txt") -> RemoteFile:
    return RemoteFile((address,), hashlib.sha256(content).hexdigest(), name)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def download_error(get: Get, *files: RemoteFile) -> str:
    with pytest.raises(UserError) as caught:
        get(*files)
    line = str(caught.value)
    assert "\n" not in line
    return line


def has_instructions(line: str) -> bool:
    return all(
        part in line
        for part in ("https://example.org/tea", "lines.txt", "data.path=DIR", "DIALOG_DATA")
    )


# ------------------------------------------------------------------ results


def test_a_file_is_downloaded_once(server: Server, get: Get) -> None:
    remote = file(server.serve("/lines", TEXT), TEXT, "deep/lines.txt")
    assert content(get(remote)) == content(get(remote)) == {"deep/lines.txt": TEXT}
    assert server.requests == ["/lines"]


def test_no_temporary_files_remain(server: Server, get: Get) -> None:
    folder = get(file(server.serve("/lines", TEXT), TEXT))
    assert sorted(path.name for path in folder.parent.iterdir()) == [".tea.lock", "tea"]


def test_a_git_object_id_is_a_checksum(server: Server, get: Get) -> None:
    hello = "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object of the six bytes
    address = server.serve("/hello", b"hello\n")
    assert content(get(RemoteFile((address,), hello, "a"))) == {"a": b"hello\n"}


def test_an_archive_is_unpacked_or_nothing_remains(
    server: Server, get: Get, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        opened.writestr("tea/lines.txt", TEXT)
    address, checksum = (
        server.serve("/tea.zip", packed.getvalue()),
        hashlib.sha256(packed.getvalue()).hexdigest(),
    )
    error = download_error(get, RemoteFile((address,), checksum, members=("*.txt", "*.csv")))
    assert error == "tea.zip: holds no *.csv"
    assert not (tmp_path / "downloads" / "tea").exists()
    assert content(get(RemoteFile((address,), checksum, members=("*.txt",)))) == {"lines.txt": TEXT}


def test_the_next_address_is_tried(server: Server, get: Get) -> None:
    parked = server.serve("/parked", b"<html>This domain is for sale</html>")
    good = server.serve("/good", TEXT)
    checksum = hashlib.sha256(TEXT).hexdigest()
    assert content(get(RemoteFile((server.root + "/gone", parked, good), checksum, "x"))) == {
        "x": TEXT
    }
    assert server.requests == ["/gone", "/parked", "/good"]


def test_a_checksum_list_names_files_below_the_root(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_sources, "CHECKSUMS", tmp_path)
    server.serve("/root/a b/lines.txt", TEXT)
    server.bodies["/root/a%20b/lines.txt"] = TEXT
    (tmp_path / "tea.txt").write_text(f"{hashlib.sha256(TEXT).hexdigest()}  a b/lines.txt\n")
    monkeypatch.setattr(
        downloads, "DOWNLOADS", {"tea": DownloadSource("", "", "", root=f"{server.root}/root/")}
    )
    ensure_downloaded("tea", tmp_path / "d" / "tea", tmp_path / "d")
    assert content(tmp_path / "d" / "tea") == {"a b/lines.txt": TEXT}


# ------------------------------------------------------------------ errors


def test_a_wrong_checksum_is_an_error(server: Server, get: Get, tmp_path: Path) -> None:
    address = server.serve("/lines", TEXT)
    remote = file(address, TEXT + b"!")
    line = download_error(get, remote)
    assert address in line
    assert has_instructions(line)
    assert hashlib.sha256(TEXT).hexdigest() in line
    assert remote.checksum in line
    assert TEXT not in content(tmp_path).values()
    server.serve("/lines", TEXT + b"!")
    assert content(get(remote)) == {"lines.txt": TEXT + b"!"}


@pytest.mark.parametrize("with_length", [True, False])
def test_a_truncated_transfer_is_an_error(server: Server, get: Get, with_length: bool) -> None:
    remote = file(server.serve("/lines", TEXT), TEXT)
    server.truncated = {"/lines"}
    server.without_length = set() if with_length else {"/lines"}
    assert has_instructions(download_error(get, remote))
    server.truncated = set()
    assert content(get(remote)) == {"lines.txt": TEXT}


def test_a_missing_file_is_an_error(server: Server, get: Get) -> None:
    line = download_error(get, file(server.root + "/lines", TEXT))
    assert f"{server.root}/lines cannot be downloaded (HTTP 404)" in line
    assert has_instructions(line)


def test_an_unreachable_server_is_an_error(server: Server, get: Get) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        address = f"http://127.0.0.1:{closed.server_port}/lines"
    line = download_error(get, file(address, TEXT))
    assert f"{address} cannot be downloaded (no connection)" in line
    assert has_instructions(line)


def test_redirects_to_local_files_are_not_followed(
    server: Server, get: Get, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(TEXT)
    server.redirects["/lines"] = (tmp_path / "secret").as_uri()
    download_error(get, file(server.root + "/lines", TEXT))
    assert server.requests == ["/lines"]


def test_offline_sends_no_request(
    server: Server, get: Get, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DIALOG_OFFLINE", "1")
    line = download_error(get, file(server.serve("/lines", TEXT), TEXT))
    assert "DIALOG_OFFLINE" in line
    assert has_instructions(line)
    assert not server.requests
    assert not list(tmp_path.iterdir())


def test_a_source_without_files_needs_a_manual_download(server: Server, get: Get) -> None:
    line = download_error(get)
    assert has_instructions(line)
    assert "CC BY 4.0" in line


def test_a_read_only_cache_is_an_error(server: Server, get: Get, tmp_path: Path) -> None:
    (tmp_path / "downloads").write_text("a file")
    assert "DIALOG_CACHE" in download_error(get, file(server.serve("/lines", TEXT), TEXT))


# ------------------------------------------------------------------ processes

SCRIPT = """
import sys
from pathlib import Path
from dialog.data.reading import downloads
from dialog.data.reading.download_sources import DownloadSource, RemoteFile
files = tuple(RemoteFile((address,), checksum, name) for address, checksum, name in zip(*[iter(sys.argv[2:])] * 3))
downloads.DOWNLOADS = {"tea": DownloadSource("CC BY 4.0", "https://example.org/tea", "lines.txt", files=files)}
root = Path(sys.argv[1])
downloads.ensure_downloaded("tea", root / "tea", root)
assert len(list((root / "tea").iterdir())) == len(files)
"""


def start(root: Path, *files: RemoteFile) -> subprocess.Popen[str]:
    """Start another process that downloads the corpus."""
    arguments = [field for file in files for field in (file.addresses[0], file.checksum, file.name)]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(root), *arguments], stderr=subprocess.PIPE, text=True
    )


def wait_for_request(server: Server, path: str, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while path not in server.requests:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_killed_download_leaves_no_folder_and_resumes(
    server: Server, get: Get, tmp_path: Path
) -> None:
    files = [
        file(server.serve(f"/{name}", TEXT + name.encode()), TEXT + name.encode(), name)
        for name in "abc"
    ]
    server.slow = {"/b"}
    with start(tmp_path / "downloads", *files) as process:
        wait_for_request(server, "/b", process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "downloads" / "tea").exists()
    server.slow = set()
    folder = get(*files)
    assert content(folder) == {name: TEXT + name.encode() for name in "abc"}
    assert server.requests == ["/a", "/b", "/b", "/c"]
    assert sorted(path.name for path in folder.parent.iterdir()) == [".tea.lock", "tea"]


def test_one_of_two_processes_downloads(server: Server, tmp_path: Path) -> None:
    files = [file(server.serve(f"/{name}", TEXT), TEXT, name) for name in "ab"]
    server.slow = {"/a"}
    root = tmp_path / "downloads"
    with start(root, *files) as one, start(root, *files) as other:
        wait_for_request(server, "/a", one)
        server.proceed.set()
        errors = [process.communicate()[1] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], errors
    assert server.requests == ["/a", "/b"]
    assert sorted("downloading tea" in error for error in errors) == [False, True]


def test_without_a_terminal_one_line_is_printed(server: Server, tmp_path: Path) -> None:
    with start(tmp_path / "downloads", file(server.serve("/a", TEXT), TEXT)) as process:
        (line,) = process.communicate()[1].splitlines()
    assert line == "downloading tea from https://example.org/tea; licence: CC BY 4.0"


# ------------------------------------------------------------------ folders


def test_folders_in_order_of_preference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "downloads"
    assert corpus_folder("dailydialog", "mine", root) == Path("mine")
    assert corpus_folder("dailydialog", None, root) == root / "dailydialog"
    assert corpus_folder("jsonl", None, root) is None
    monkeypatch.setenv("DIALOG_DATA", str(tmp_path))
    assert corpus_folder("dailydialog", "mine", root) == Path("mine")
    assert corpus_folder("dailydialog", None, root) == root / "dailydialog"
    assert corpus_folder("jsonl", None, root) == tmp_path / "jsonl"
    (tmp_path / "dailydialog").mkdir()
    assert corpus_folder("dailydialog", None, root) == tmp_path / "dailydialog"


def test_only_download_folders_are_filled(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        downloads, "DOWNLOADS", {"tea": source(file(server.serve("/lines", TEXT), TEXT))}
    )
    ensure_downloaded("tea", tmp_path / "mine", tmp_path / "downloads")
    ensure_downloaded("tea", None, tmp_path / "downloads")
    ensure_downloaded("coffee", tmp_path / "downloads" / "coffee", tmp_path / "downloads")
    assert not server.requests
    assert not list(tmp_path.iterdir())
