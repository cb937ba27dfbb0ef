"""Downloads from a real server on this machine: what is refused, what is left behind, what is asked for again."""

from __future__ import annotations

import hashlib
import io
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dialog.data.reading import downloads, sources, unpacking
from dialog.data.reading.download_sources import CHECKSUMS, DOWNLOADS, File, Source, all_files
from dialog.data.reading.downloads import corpus_folder, ensure_downloaded
from dialog.errors import UserError

TEXT = b"Where is the tea ?\nBehind the bread .\n" * 4000


class Server:
    """What it was asked for, and what it answers: a body, or a way to go wrong."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.bodies: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.unmeasured: set[str] = set()
        self.slow: set[str] = set()
        self.moved: dict[str, str] = {}
        self.going_on = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                if self.path in server.moved:
                    self.send_response(302)
                    self.send_header("Location", server.moved[self.path])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = server.bodies.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                if self.path not in server.unmeasured:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                half = len(body) // 2
                self.wfile.write(body[:half])
                self.wfile.flush()
                if self.path in server.slow:
                    server.going_on.wait(30)
                if self.path not in server.cut:
                    self.wfile.write(body[half:])

            def handle(self) -> None:
                with suppress(ConnectionError):  # whoever asked was killed
                    super().handle()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.root = f"http://127.0.0.1:{self.http.server_port}"

    def serve(self, path: str, body: bytes) -> str:
        """The address of a body."""
        self.bodies[path] = body
        return self.root + path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, and leave to ask it."""
    monkeypatch.setenv("DIALOG_OFFLINE", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.going_on.set()
    made.http.shutdown()
    made.http.server_close()
    thread.join()


Get = Callable[..., Path]


@pytest.fixture
def get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Get:
    """``get(file, ...)``: the folder of a corpus of these files."""

    def run(*files: File) -> Path:
        monkeypatch.setattr(downloads, "DOWNLOADS", {"tea": source(*files)})
        root = tmp_path / "downloads"
        ensure_downloaded("tea", root / "tea", root)
        return root / "tea"

    return run


def source(*files: File) -> Source:
    return Source("CC BY 4.0", "https://example.org/tea", "lines.txt", files=files)


def file(address: str, content: bytes, name: str = "lines.txt") -> File:
    return File((address,), hashlib.sha256(content).hexdigest(), name)


def archive(address: str, content: bytes, *members: str) -> File:
    return File((address,), hashlib.sha256(content).hexdigest(), members=members)


def zipped(**members: bytes) -> bytes:
    return zip_of(members)


def zip_of(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return packed.getvalue()


def tar_of(members: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                opened.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                opened.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def kept(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(get: Get, *files: File) -> str:
    """The one line of the refusal, after which nothing counts as there."""
    with pytest.raises(UserError) as caught:
        get(*files)
    line = str(caught.value)
    assert "\n" not in line
    return line


def by_hand(line: str) -> bool:
    return all(each in line for each in ("https://example.org/tea", "lines.txt", "data.path=DIR", "DIALOG_DATA"))


# ------------------------------------------------------------------ what arrives


def test_a_file_is_downloaded_once(server: Server, get: Get) -> None:
    wanted = file(server.serve("/lines", TEXT), TEXT, "deep/lines.txt")
    assert kept(get(wanted)) == kept(get(wanted)) == {"deep/lines.txt": TEXT}
    assert server.asked == ["/lines"]


def test_nothing_else_stays(server: Server, get: Get) -> None:
    folder = get(file(server.serve("/lines", TEXT), TEXT))
    assert sorted(path.name for path in folder.parent.iterdir()) == [".tea.lock", "tea"]


def test_a_file_may_be_checked_by_its_id_in_git(server: Server, get: Get) -> None:
    hello = "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object of the six bytes
    address = server.serve("/hello", b"hello\n")
    assert kept(get(File((address,), hello, "a"))) == {"a": b"hello\n"}


def test_an_archive_gives_what_is_asked_of_it(server: Server, get: Get) -> None:
    inner = zip_of(
        {"train/lines_a.txt": b"a", "train/lines_b.txt": b"b", "train/readme": b"no", "__MACOSX/._x.txt": b""}
    )
    packed = zip_of(
        {"tea/train.zip": inner, "tea/notes.txt": b"n", "tea/sub/": b"", "__MACOSX/tea/._notes.txt": b"junk"}
    )
    folder = get(archive(server.serve("/tea.zip", packed), packed, "train.zip!train/lines_*.txt", "*.txt"))
    assert kept(folder) == {"train/lines_a.txt": b"a", "train/lines_b.txt": b"b", "notes.txt": b"n"}


def test_tar_and_zip_give_the_same(server: Server, get: Get, tmp_path: Path) -> None:
    members = {"tea/train.csv": TEXT, "tea/deep/test.csv": b"t", "tea/readme": b"no"}
    packed = tar_of(members)
    folder = get(archive(server.serve("/tea.tgz", packed), packed, "*.csv"))
    assert kept(folder) == {"train.csv": TEXT, "test.csv": b"t"}
    folder.rename(tmp_path / "other")
    packed = zip_of(members)
    assert kept(get(archive(server.serve("/tea.zip", packed), packed, "*.csv"))) == kept(tmp_path / "other")


def test_the_next_address_is_tried(server: Server, get: Get) -> None:
    parked = server.serve("/parked", b"<html>This domain is for sale</html>")
    good = server.serve("/good", TEXT)
    checksum = hashlib.sha256(TEXT).hexdigest()
    assert kept(get(File((server.root + "/gone", parked, good), checksum, "x"))) == {"x": TEXT}
    assert server.asked == ["/gone", "/parked", "/good"]


def test_a_list_gives_paths_below_the_root(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CHECKSUMS", tmp_path)
    server.serve("/root/a b/lines.txt", TEXT)
    server.bodies["/root/a%20b/lines.txt"] = TEXT
    (tmp_path / "tea.txt").write_text(f"{hashlib.sha256(TEXT).hexdigest()}  a b/lines.txt\n")
    monkeypatch.setattr(downloads, "DOWNLOADS", {"tea": Source("", "", "", root=f"{server.root}/root/")})
    ensure_downloaded("tea", tmp_path / "d" / "tea", tmp_path / "d")
    assert kept(tmp_path / "d" / "tea") == {"a b/lines.txt": TEXT}


# ------------------------------------------------------------------ what does not


def test_another_content_is_refused_with_both_checksums(server: Server, get: Get, tmp_path: Path) -> None:
    address = server.serve("/lines", TEXT)
    wanted = file(address, TEXT + b"!")
    line = refused(get, wanted)
    assert address in line
    assert by_hand(line)
    assert hashlib.sha256(TEXT).hexdigest() in line
    assert wanted.checksum in line
    assert TEXT not in kept(tmp_path).values()
    server.serve("/lines", TEXT + b"!")
    assert kept(get(wanted)) == {"lines.txt": TEXT + b"!"}


@pytest.mark.parametrize("measured", [True, False])
def test_a_transfer_that_breaks_off_is_no_file(server: Server, get: Get, measured: bool) -> None:
    wanted = file(server.serve("/lines", TEXT), TEXT)
    server.cut = {"/lines"}
    server.unmeasured = set() if measured else {"/lines"}
    assert by_hand(refused(get, wanted))
    server.cut = set()
    assert kept(get(wanted)) == {"lines.txt": TEXT}


def test_what_is_not_there_is_named(server: Server, get: Get) -> None:
    line = refused(get, file(server.root + "/lines", TEXT))
    assert f"{server.root}/lines could not be got (HTTP 404)" in line
    assert by_hand(line)


def test_without_a_network_the_line_says_what_to_do(server: Server, get: Get) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        address = f"http://127.0.0.1:{closed.server_port}/lines"
    line = refused(get, file(address, TEXT))
    assert f"{address} could not be got (no connection)" in line
    assert by_hand(line)


def test_only_the_web_is_asked(server: Server, get: Get, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(TEXT)
    server.moved["/lines"] = (tmp_path / "secret").as_uri()
    refused(get, file(server.root + "/lines", TEXT))
    assert server.asked == ["/lines"]


def test_offline_nothing_is_asked(server: Server, get: Get, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DIALOG_OFFLINE", "1")
    line = refused(get, file(server.serve("/lines", TEXT), TEXT))
    assert "DIALOG_OFFLINE" in line
    assert by_hand(line)
    assert not server.asked
    assert not list(tmp_path.iterdir())


def test_what_has_no_checksum_is_for_a_person(server: Server, get: Get) -> None:
    line = refused(get)
    assert by_hand(line)
    assert "CC BY 4.0" in line


def test_a_cache_that_cannot_be_written_is_named(server: Server, get: Get, tmp_path: Path) -> None:
    (tmp_path / "downloads").write_text("a file")
    assert "DIALOG_CACHE" in refused(get, file(server.serve("/lines", TEXT), TEXT))


# ------------------------------------------------------------------ archives that mean harm


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


HARMFUL = {
    "up in a zip": (zip_of({"../evil.txt": b"evil"}), "points out of the archive"),
    "up in a tar": (tar_of({"tea/../../evil.txt": b"evil"}), "points out of the archive"),
    "absolute": (tar_of({"/tmp/evil.txt": b"evil"}), "points out of the archive"),
    "a link": (tar_of({"a.txt": link("a.txt", "/etc/passwd")}), "no regular file"),
    "a link as folder": (tar_of({"up": link("up", ".."), "up/../evil.txt": b"evil"}), "points out of the archive"),
    "twice": (zip_of({"a/x.txt": b"1", "b/x.txt": b"2"}), "twice"),
    "nothing": (zip_of({"x.csv": b"1"}), "holds no *.txt"),
    "a bomb": (zip_of({"x.txt": bytes(2**22)}), "more than such an archive should"),
    "bombs": (tar_of({f"{number}.txt": bytes(2**20) for number in range(4)}), "more than such an archive should"),
    "no archive": (b"<html>", "cannot be unpacked"),
    "cut off": (tar_of({"x.txt": hashlib.shake_256().digest(99_999)})[:-9_999], "cannot be unpacked"),
    "a damaged zip": (
        zip_of({"x.txt": hashlib.shake_256().digest(99_999)}).replace(b"\x01", b"\x02"),
        "cannot be unpacked",
    ),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_archive_is_refused(
    server: Server, get: Get, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(unpacking, "BOMB_SIZE", 2**21)
    packed, message = HARMFUL[name]
    before = {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents}
    assert message in refused(get, archive(server.serve("/tea", packed), packed, "*.txt"))
    assert not (tmp_path / "downloads" / "tea").exists()
    assert {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents} == before
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 2**22


# ------------------------------------------------------------------ several, and the end of one

SCRIPT = """
import sys
from pathlib import Path
from dialog.data import downloads
from dialog.data.reading.download_sources import File, Source
files = tuple(File((address,), checksum, name) for address, checksum, name in zip(*[iter(sys.argv[2:])] * 3))
downloads.DOWNLOADS = {"tea": Source("CC BY 4.0", "https://example.org/tea", "lines.txt", files=files)}
root = Path(sys.argv[1])
downloads.ensure_downloaded("tea", root / "tea", root)
assert len(list((root / "tea").iterdir())) == len(files)
"""


def start(root: Path, *files: File) -> subprocess.Popen[str]:
    """Another process that gets the same."""
    given = [each for file in files for each in (file.addresses[0], file.checksum, file.name)]
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(root), *given], stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_download_that_is_killed_is_not_there_and_goes_on_next_time(server: Server, get: Get, tmp_path: Path) -> None:
    files = [file(server.serve(f"/{name}", TEXT + name.encode()), TEXT + name.encode(), name) for name in "abc"]
    server.slow = {"/b"}
    with start(tmp_path / "downloads", *files) as process:
        wait_for(lambda: "/b" in server.asked)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "downloads" / "tea").exists()
    server.slow = set()
    folder = get(*files)
    assert kept(folder) == {name: TEXT + name.encode() for name in "abc"}
    assert server.asked == ["/a", "/b", "/b", "/c"]
    assert sorted(path.name for path in folder.parent.iterdir()) == [".tea.lock", "tea"]


def test_of_two_processes_one_downloads(server: Server, tmp_path: Path) -> None:
    files = [file(server.serve(f"/{name}", TEXT), TEXT, name) for name in "ab"]
    server.slow = {"/a"}
    root = tmp_path / "downloads"
    with start(root, *files) as one, start(root, *files) as other:
        wait_for(lambda: "/a" in server.asked)
        server.going_on.set()
        errors = [process.communicate()[1] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], errors
    assert server.asked == ["/a", "/b"]
    assert sorted("downloading tea" in error for error in errors) == [False, True]


def test_off_a_terminal_there_is_a_line_and_no_bar(server: Server, tmp_path: Path) -> None:
    with start(tmp_path / "downloads", file(server.serve("/a", TEXT), TEXT)) as process:
        (said,) = process.communicate()[1].splitlines()
    assert said == "downloading tea from https://example.org/tea; licence: CC BY 4.0"


# ------------------------------------------------------------------ which folder


def test_a_given_folder_comes_first_and_then_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_folder_of_the_users_is_never_filled(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "DOWNLOADS", {"tea": source(file(server.serve("/lines", TEXT), TEXT))})
    ensure_downloaded("tea", tmp_path / "mine", tmp_path / "downloads")
    ensure_downloaded("tea", None, tmp_path / "downloads")
    ensure_downloaded("coffee", tmp_path / "downloads" / "coffee", tmp_path / "downloads")
    assert not server.asked
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ the table


@pytest.mark.parametrize("corpus", DOWNLOADS)
def test_the_table_pins_what_it_names(corpus: str) -> None:
    source = DOWNLOADS[corpus]
    files = all_files(corpus, source)
    assert source.licence
    assert source.page.startswith("http")
    assert source.automatic == bool(files)
    for each in files:
        assert len(each.checksum) in (40, 64)
        assert set(each.checksum) <= set("0123456789abcdef")
        assert bool(each.name) != bool(each.members)
        assert not Path(each.name).is_absolute()
        assert ".." not in Path(each.name).parts
        for address in each.addresses:
            assert address.startswith(("http://", "https://"))
            if "githubusercontent" in address:
                commit = address.split("/")[5]
                assert len(commit) == 40
                assert set(commit) <= set("0123456789abcdef")
    assert len({each.name or each.addresses for each in files}) == len(files)
    assert len({each.checksum for each in files}) == len(files)


def test_every_list_is_of_a_source() -> None:
    assert {path.stem for path in CHECKSUMS.iterdir()} == {name for name, source in DOWNLOADS.items() if source.root}


def test_every_download_is_read_by_a_corpus_of_its_name() -> None:
    from dialog.data.corpora import CORPORA

    assert set(DOWNLOADS) <= set(CORPORA)
