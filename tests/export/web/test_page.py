"""The page: what it holds, what it refuses, and its replies and maps in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from browser import needs_chromium
from click.testing import CliRunner
from devtools import Page, browsing
from modern_networks import MODERN, SIZES

from dialog.analysis.attention.maps import attention_maps
from dialog.cli import program
from dialog.data.tokenizers.tokenizer import BOS, EOS
from dialog.errors import RunError, UserError
from dialog.export.formats.onnx.writing import write_networks
from dialog.export.web import model as model_module
from dialog.export.web import page as page_module
from dialog.export.web import runtime
from dialog.export.web.model import WebModel, check_page, web_model
from dialog.export.web.page import export_page
from dialog.export.web.weights import rounded
from dialog.generation.searches.sampling import row_uniform
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.load import load
from dialog.runs.run import Run

FAMILIES = ("lstm", "transformer")
HOSTILE = "</script><img src=x onerror=alert(1)> </s> <self> & 😀 é"
CONTEXTS = (
    ["Hi !", "Hello . How are you ?", "What is your name ?"],
    ["I like tea ."],
    ["a", "b c", "d 😀"],
    [HOSTILE],
    ["word " * 90],
)
BEAM = {"name": "beam", "width": 5, "candidates": 5}
SAMPLING = {"name": "sampling", "temperature": 1.2, "top_p": 0.9}
USERS_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dialog"
"""The tests' own cache is empty, and they may not download."""
PACKAGE = USERS_CACHE / runtime.runtime_path().relative_to(runtime.cache_folder())
# without a network the engine is there only if an export has downloaded it before
needs_runtime = pytest.mark.skipif(
    not PACKAGE.is_file(), reason=f"needs {runtime.NAME}, which an export --format web downloads"
)
READY = "!byId('status').hidden && byId('status').textContent.startsWith('Ready')"


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ONNX files of `models`, in a folder for each family."""
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(scope="module")
def models(trained: Callable[[str], Path], networks: Path) -> list[WebModel]:
    """Both families, translated once."""

    def write_and_keep(model: Seq2Seq, folder: Path) -> None:
        write_networks(model, folder)
        shutil.copytree(folder, networks / FAMILIES[len([*networks.iterdir()])])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_module, "write_networks", write_and_keep)
        return [web_model(load(trained(name), device="cpu"), name, "float16") for name in FAMILIES]


@pytest.fixture
def export_models(
    models: list[WebModel], trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """``export_models(output, single_file=...)``: write the page of both families by the
    command.
    """

    def write(output: Path, *, single_file: bool) -> Path:
        translated = iter(models)
        monkeypatch.setattr(page_module, "web_model", lambda run, name, kind: next(translated))
        command = ["export", *(str(trained(name)) for name in FAMILIES), "--format", "web"]
        command += ["--output", str(output), *(["--single-file"] if single_file else [])]
        result = CliRunner().invoke(program, command, catch_exceptions=False)
        assert result.stdout.strip() == str(output)
        assert result.stderr.count("parity") == len(FAMILIES)
        return output

    return write


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {runtime.SCRIPT: b"</script>", runtime.WASM: b"wasm"}
    monkeypatch.setattr(page_module, "runtime_files", lambda: files)


@pytest.fixture
def real_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.runtime_files.cache_clear()
    monkeypatch.setenv("DIALOG_CACHE", str(USERS_CACHE))


@needs_chromium
@needs_runtime
def test_replies_and_maps_are_those_of_the_run(
    real_engine: None,
    export_models: Callable[..., Path],
    trained: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """One file, opened from disk: tokens of all searches, maps, hostile text, and no request."""
    path = export_models(tmp_path / "page.html", single_file=True)
    with browsing(tmp_path) as page:
        page.open(path.as_uri())
        page.until(READY)
        check_replies(page, [load(trained(family), device="cpu") for family in FAMILIES])
        page.evaluate("byId('text').focus()")
        page.type(HOSTILE)
        page.until("document.querySelectorAll('.heat td').length > 0")  # while one types
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        page.press("Enter", windowsVirtualKeyCode=13)
        page.until("byId('turns').children.length === 2 && byId('send').textContent === 'Send'")
        shown = page.evaluate(
            "[...byId('turns').querySelectorAll('[dir=auto]')].map((one) => one.textContent)"
        )
        runs = (load(trained(family), device="cpu") for family in FAMILIES)
        runs = (replace(run, model=rounded(run.model, "float16")) for run in runs)
        assert shown == [HOSTILE, *(run.respond([HOSTILE]).text for run in runs)]
        assert page.requests() == [path.as_uri()]
        assert page.problems() == []


@pytest.mark.endurance
@needs_chromium
@needs_runtime
def test_replies_of_modern_networks(
    real_engine: None, random_run: Callable[..., Run], tmp_path: Path
) -> None:
    """Scans with weights and windows, states of whole numbers, and a decoder alone."""
    parts = {"encoder": {"name": "slstm", **SIZES}, "decoder": {"name": "retnet", **SIZES}}
    runs = [random_run(**network) for network in (parts, MODERN["decoder only"])]
    path = tmp_path / "page.html"
    export_page(runs, path, single_file=True)
    with browsing(tmp_path) as page:
        page.open(path.as_uri())
        page.until(READY)
        check_replies(page, runs)
        assert page.problems() == []


def check_replies(page: Page, runs: list[Run]) -> None:
    """Compare tokens, texts and maps of the page with those of the runs with the same weights."""
    for number, trained_run in enumerate(runs):
        run = replace(trained_run, model=rounded(trained_run.model, "float16"))
        for place, context in enumerate(CONTEXTS):
            source, _ = run.responder.encode(run.responder.example(context))
            [draws] = row_uniform(1, source, "", (1, 1 + run.recipe.generation.max_length))
            more = {"normalisation": "average", "length_penalty": 1, "top_k": 0, "min_p": 0}
            searches = [BEAM, SAMPLING] if place < 2 else []
            for search in ({"name": "greedy"}, *searches):
                task = {
                    "number": models_number(page, number),
                    "context": context,
                    "settings": {**more, **search},
                    "draws": draws.tolist(),
                }
                reply = page.evaluate(f"engine.ask('respond', {json.dumps(task)})")
                best = run.respond(context, search).candidates[0]
                assert reply["source"] == source
                assert reply["response"] == [token for token in best.ids if token != EOS]
                assert reply["text"] == best.text
            check_maps(page, run, {"number": task["number"], **reply})


def models_number(page: Page, place: int) -> int:
    number: int = page.evaluate(f"models[{place}].number")
    return number


def check_maps(page: Page, run: Run, reply: dict[str, Any]) -> None:
    """Compare the maps of a reply with those of the hook."""
    steps = f"engine.ask('attention', {json.dumps(reply)}).then((answer) => answer.maps.map("
    steps += "({ name, heads }) => [name, heads.map((rows) => rows.map((row) => [...row]))]))"
    maps = dict(page.evaluate(steps))
    source = torch.tensor([reply["source"]])
    target = torch.tensor([[BOS, *reply["response"]]])
    expected = attention_maps(run.model, source, torch.ones_like(source, dtype=torch.bool), target)
    cross = {one.name: one.weights[0] for one in expected if one.kind == "cross"}
    assert [*maps] == [*cross]
    for name, weights in cross.items():
        assert np.abs(np.array(maps[name]) - weights.numpy()).max() < 1e-4


@pytest.mark.endurance
@needs_chromium
@needs_runtime
def test_folder_from_a_server(
    real_engine: None, export_models: Callable[..., Path], tmp_path: Path
) -> None:
    """After loading it requests nothing; opened from disk it says what to do."""
    folder = export_models(tmp_path / "folder", single_file=False)
    requested: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            requested.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        with browsing(tmp_path) as page:
            page.open(f"http://127.0.0.1:{server.server_port}/index.html")
            page.until(READY)
            loaded = sorted(requested)
            names = {file.name for file in folder.iterdir()} - {"README.md", "parity.json"}
            assert loaded == sorted(f"/{name}" for name in names)
            page.evaluate("byId('text').value = 'Hi !'; byId('send').click()")
            page.until("byId('turns').children.length === 2 && byId('send').textContent === 'Send'")
            page.evaluate("byId('new').click()")
            assert page.evaluate("[chats, byId('turns').children.length]") == [[[], []], 0]
            assert sorted(requested) == loaded
            assert page.problems() == []
            page.send(
                "Emulation.setDeviceMetricsOverride",
                width=390,
                height=844,
                deviceScaleFactor=1,
                mobile=True,
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            page.open((folder / "index.html").as_uri())
            page.until("byId('error')?.textContent.includes('http.server')")
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.endurance
@needs_chromium
def test_a_browser_without_webassembly_is_told(
    fake_engine: None, export_models: Callable[..., Path], tmp_path: Path
) -> None:
    path = export_models(tmp_path / "page.html", single_file=True)
    with browsing(tmp_path) as page:
        hidden = "delete globalThis.WebAssembly"
        page.send("Page.addScriptToEvaluateOnNewDocument", source=hidden)
        page.open(path.as_uri())
        page.until("!byId('error').hidden")
        assert "WebAssembly" in page.evaluate("byId('error').textContent")
        assert page.evaluate("byId('text').disabled")


def test_files_of_both_forms(
    fake_engine: None, export_models: Callable[..., Path], tmp_path: Path
) -> None:
    """A folder has what one file has; the engine's licence is in both; nothing names this machine."""
    folder = export_models(tmp_path / "folder", single_file=False)
    one = export_models(tmp_path / "new" / "page.html", single_file=True).read_text()
    names = {file.name for file in folder.iterdir()}
    inside = set(re.findall(r'<script type="[^"]*" id="([^"]*)">', one))
    assert inside == names - {"index.html", "README.md", "parity.json"}
    report = json.loads((folder / "parity.json").read_text())
    assert [(one["weights"], one["holds"]) for one in report["models"]] == [("float16", True)] * 2
    page = (folder / "index.html").read_text()
    for text in (one, page, (folder / "README.md").read_text()):
        assert runtime.VERSION in text
        assert str(Path.home()) not in text
    for text in (one, page):
        assert "Permission is hereby granted" in text
        assert "<noscript>" in text
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy is not None
        assert "default-src &#39;none&#39;" in policy[1]
        assert ("connect-src" in policy[1]) == (text is page)


@pytest.mark.endurance
@pytest.mark.parametrize("kind", ["int8", "float32"])
def test_other_weights(kind: str, trained: Callable[[str], Path], models: list[WebModel]) -> None:
    """Stored once though tied, smaller or larger than float16, and equal to the rounded run."""
    run = load(trained("transformer"), device="cpu")
    result = web_model(run, "transformer", kind)
    assert result.parity.holds
    sizes = [len(model.files["weights.gz"]) for model in (result, models[1])]
    assert (sizes[0] < sizes[1]) == (kind == "int8")
    if kind == "float32":
        parameters = {id(one): one.numel() for one in run.model.parameters()}
        assert sizes[0] < 4 * sum(parameters.values())


def test_a_model_that_differs_is_refused(
    models: list[WebModel],
    networks: Path,
    trained: Callable[[str], Path],
    fake_engine: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Networks with other weights than the run's, here those of another rounding, are found out."""

    def write_others(model: Seq2Seq, folder: Path) -> None:
        shutil.copytree(networks / "transformer", folder, dirs_exist_ok=True)

    monkeypatch.setattr(model_module, "write_networks", write_others)
    run = load(trained("transformer"), device="cpu")
    with pytest.raises(RunError, match="does not compute"):
        export_page([run], tmp_path / "page.html", weights="int8", single_file=True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("generation.search={name: contrastive}", "contrastive"),
        ("generation.search={name: sampling, typical_p: 0.5}", "typical_p"),
        ("generation.banned=[tea]", "generation.banned"),
        ("generation.required=[tea]", "generation.required"),
    ],
)
def test_what_a_page_lacks_is_named(
    override: str, named: str, trained: Callable[[str], Path]
) -> None:
    run = load(trained("transformer"), overrides=[override], device="cpu")
    with pytest.raises(UserError, match=re.escape(named)):
        check_page(run)


def test_a_word_tokenizer_is_named(trained: Callable[[str], Path]) -> None:
    run = load(trained("transformer"), device="cpu")
    content = json.loads(run.tokenizer.json)
    content["decoder"] = None
    changed = type(run.tokenizer)(json.dumps(content))
    tokenizer = {"name": "word"}
    recipe = replace(run.recipe, data=replace(run.recipe.data, tokenizer=tokenizer))
    with pytest.raises(UserError, match=r"data\.tokenizer.*'word'"):
        check_page(replace(run, tokenizer=changed, recipe=recipe))


def test_options_belong_to_the_page(trained: Callable[[str], Path], tmp_path: Path) -> None:
    run = str(trained("transformer"))
    output = ["--output", str(tmp_path / "new")]
    for arguments, key in (
        ([run, "--format", "onnx", "--single-file"], "--single-file"),
        ([run, "--format", "onnx", "--weights", "int8"], "--weights"),
        ([run, run, "--format", "onnx"], "2 runs"),
        ([run, run, run, "--format", "web"], "3 runs"),
    ):
        with pytest.raises(UserError, match=re.escape(key)):
            CliRunner().invoke(program, ["export", *arguments, *output], catch_exceptions=False)


def test_a_missing_engine_is_named_with_its_place(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a network: the address, the version and where the file belongs."""
    runtime.runtime_files.cache_clear()
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "cache"))
    run = load(trained("transformer"), device="cpu")
    with pytest.raises(UserError) as caught:
        export_page([run], tmp_path / "page.html", single_file=True)
    for part in (runtime.ADDRESS, runtime.VERSION, str(runtime.runtime_path())):
        assert part in str(caught.value)
    runtime.runtime_path().parent.mkdir(parents=True)
    runtime.runtime_path().write_bytes(b"another file")
    with pytest.raises(UserError, match="checksum"):
        export_page([run], tmp_path / "page.html", single_file=True)
