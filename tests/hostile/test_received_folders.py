"""Folders from elsewhere: whatever their files contain, no verb runs code, writes outside, or fails
internally.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors import safe_open
from safetensors.numpy import save_file

from dialog.cli import main

CANARY = "canary_of_tests"
CODE = ("os.system", "os.exec", "os.posix_spawn", "os.startfile", "subprocess.Popen")
WRITES = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "shutil.rmtree",
)
HUGE = 10**400
DEEP = "[" * 100_000 + "]" * 100_000
FIELDS = int(os.environ.get("DIALOG_HOSTILE_FIELDS", "1"))
"""Fields of each file that get each value; a large number tries all."""
RUN_FILES = (
    "recipe.yaml",
    "environment.json",
    "manifest.json",
    "tokenizer_config.json",
    "summary.json",
)
EVALUATION = "evaluation/test"


@dataclass
class Watch:
    """Audit events of the calls under test: programs that are run, and paths that change outside of
    some folders.
    """

    allowed: list[Path] = field(default_factory=list)
    on: bool = False
    seen: list[str] = field(default_factory=list)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        writing = (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if event in CODE:
            self.seen.append(f"{event} {arguments}")
        elif event in WRITES or writing:
            self.note(event, arguments[0])

    def note(self, event: str, path: object) -> None:
        if isinstance(path, str | os.PathLike):
            whole = Path(os.path.realpath(path))
            if not any(whole.is_relative_to(folder) for folder in (*self.allowed, Path("/dev"))):
                self.seen.append(f"{event} {whole}")


@pytest.fixture(scope="module")
def watch() -> Watch:
    watch = Watch()
    sys.addaudithook(watch.hook)  # for the rest of this process; it does nothing while off
    return watch


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the user that nothing may touch."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "thesis.txt").write_text("years of work")
    return tmp_path / "victim"


@pytest.fixture
def call(
    watch: Watch, victim: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str]]]:
    """``call(*arguments)``: exit code and standard error of a command that reads a folder from
    elsewhere.
    """
    (victim.parent / "modules").mkdir()
    code = (
        "from pathlib import Path\nPath(__file__).with_name('executed').touch()\ndef run(*args,"
        " **options): ...\n"
    )
    (victim.parent / "modules" / f"{CANARY}.py").write_text(code)
    monkeypatch.delitem(sys.modules, CANARY, raising=False)
    monkeypatch.syspath_prepend(victim.parent / "modules")
    monkeypatch.chdir(victim.parent)
    watch.seen.clear()
    watch.allowed = [
        Path(os.environ["DIALOG_CACHE"]).resolve(),
        (victim.parent / "received").resolve(),
    ]

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["dialog", *arguments])
        capsys.readouterr()
        watch.on = True
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            watch.on = False
        return int(ended.value.code or 0), capsys.readouterr().err

    yield run
    assert watch.seen == []
    assert not (victim.parent / "modules" / "executed").exists(), "the folder's code was imported"
    assert [path.name for path in victim.iterdir()] == ["thesis.txt"]
    assert (victim / "thesis.txt").read_text() == "years of work"


@pytest.fixture
def received(trained: Callable[[str], Path], tmp_path: Path) -> Path:
    """A comparison folder with a run of each family, as an archive from elsewhere would give it."""
    folder = tmp_path / "received"
    contenders = []
    for family in ("lstm", "transformer"):
        run = Path(shutil.copytree(trained(family), folder / "runs" / family / "seed-1"))
        recipe = yaml.safe_load((run / "recipe.yaml").read_text(encoding="utf-8"))
        one = {
            "name": family,
            "kind": "recipe",
            "hash": family,
            "recipe": recipe,
            "folders": {},
            "file": "",
        }
        contenders.append(one)
    grid = {
        "format": 1,
        "version": "0",
        "contenders": contenders,
        "seeds": [1],
        "overrides": [],
        "commands": [],
    }
    (folder / "grid.json").write_text(json.dumps(grid), encoding="utf-8")
    return folder


# ------------------------------------------------------------------ changing fields


def places(tree: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value below a tree."""
    items: Any = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def changed(tree: Any, path: tuple[Any, ...], value: object) -> Any:
    """Return a copy of a tree with another value at a path."""
    copy = json.loads(json.dumps(tree))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def hostile_values(victim: Path) -> list[Any]:
    code = f"{CANARY}.run"
    return [
        code,
        {"name": code},
        [{"name": "subprocess.Popen", "args": ["true"]}],
        "../../../victim",
        str(victim),
        HUGE,
    ]


def variants(tree: object, victim: Path, seed: str) -> Iterator[str]:
    """Yield texts of JSON in which a few fields have each hostile value; one field is nested
    deeply.
    """
    draw = random.Random(seed)
    paths = list(places(tree))
    for value in hostile_values(victim):
        for path in draw.sample(paths, min(FIELDS, len(paths))):
            yield json.dumps(changed(tree, path, value))
    yield json.dumps(changed(tree, draw.choice(paths), "DEEP")).replace('"DEEP"', DEEP)


def sign(folder: Path) -> None:
    """Write the hashes of the files as they are, as the author of the folder would."""
    manifest = folder / "manifest.json"
    if manifest.is_file():
        listed = json.loads(manifest.read_text(encoding="utf-8"))
        hashes = {
            name: sha256((folder / name).read_bytes()).hexdigest()
            for name in listed
            if (folder / name).is_file()
        }
        manifest.write_text(json.dumps({**listed, **hashes}), encoding="utf-8")


# ------------------------------------------------------------------ each field of each file


@pytest.mark.parametrize(
    "name",
    [
        "recipe.yaml",
        *(pytest.param(name, marks=pytest.mark.endurance) for name in RUN_FILES[1:]),
    ],
)
def test_fields_of_a_run(
    name: str, received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    run = received / "runs" / "lstm" / "seed-1"
    path = run / name
    original = path.read_bytes()
    (victim.parent / "contexts.jsonl").write_text('{"context": ["Hi !"]}\n')
    respond = ["respond", str(run), "--input", str(victim.parent / "contexts.jsonl")]
    for text in variants(yaml.safe_load(original), victim, name):
        path.write_text(text, encoding="utf-8")
        if name != "manifest.json":
            sign(run)
        for verb in (["verify", str(run)], respond, ["train", "--resume", str(run)]):
            code, errors = call(*verb)
            assert code in (0, 2), (verb, text[:2000], errors)
            assert "Traceback" not in errors
        path.write_bytes(original)


def test_fields_of_a_grid(
    received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    original = (received / "grid.json").read_bytes()
    for text in variants(json.loads(original), victim, "grid"):
        (received / "grid.json").write_text(text, encoding="utf-8")
        # ends before the analysis
        code, errors = call("compare", str(received), "--seeds", "1", "model.dropout=0.5")
        assert code == 2, (text[:2000], errors)


def test_fields_of_an_evaluation(
    received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    """Statistics name the components of their metrics."""
    evaluation = received / "runs" / "lstm" / "seed-1" / EVALUATION
    statistics = evaluation / "statistics.safetensors"
    with safe_open(statistics, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        metadata = json.loads(file.metadata()["metrics"])
    metadata["metrics"]["f1"] = {"name": f"{CANARY}.run"}
    save_file(arrays, statistics, {"metrics": json.dumps(metadata)})
    sign(evaluation)
    code, errors = call("compare", str(received))
    assert code in (0, 2), errors


# ------------------------------------------------------------------ the attacks that were shown


@pytest.mark.parametrize("path", ["../../../victim", "/victim", "runs/../../../victim", "..", "."])
def test_names_of_contenders_stay_inside(
    path: str, received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    grid = json.loads((received / "grid.json").read_text(encoding="utf-8"))
    grid["contenders"][0]["name"] = str(victim) if path == "/victim" else path
    (received / "grid.json").write_text(json.dumps(grid), encoding="utf-8")
    code, errors = call("compare", str(received))
    assert code == 2
    assert "grid.json" in errors


def test_run_folders_of_a_grid_are_only_read(
    received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    grid = json.loads((received / "grid.json").read_text(encoding="utf-8"))
    grid["contenders"][0]["folders"] = {"1": str(victim)}
    (received / "grid.json").write_text(json.dumps(grid), encoding="utf-8")
    code, errors = call("compare", str(received))
    assert code == 2
    assert f"{victim}: lies outside" in errors


@pytest.mark.parametrize(
    "link", ["runs/lstm/seed-1", "runs/lstm/seed-1/evaluation", "figures", "report.html"]
)
def test_no_link_is_followed_out(
    link: str, received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    if (received / link).is_dir():
        shutil.rmtree(received / link)
    (received / link).symlink_to(victim, target_is_directory=True)
    code, errors = call("compare", str(received))
    assert code == 2
    assert str(received / link) in errors
    if link.startswith("runs"):
        run = received / "runs" / "lstm" / "seed-1"
        assert call("evaluate", str(run))[0] == 2
        assert call("train", "--resume", str(run))[0] == 2


@pytest.mark.parametrize("options", [["--model"], ["--examples", "1"], []])
def test_showing_a_recipe_runs_no_code(
    options: list[str], received: Path, call: Callable[..., tuple[int, str]]
) -> None:
    recipe = yaml.safe_load((received / "runs/lstm/seed-1/recipe.yaml").read_text(encoding="utf-8"))
    for section in ("encoder", "decoder", "head"):
        recipe["model"][section] = {"name": f"{CANARY}.run"}
    recipe["data"]["corpus"] = {"name": f"{CANARY}.run"}
    (received / "stranger.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    code, errors = call("show", str(received / "stranger.yaml"), *options)
    assert code == (2 if options else 0)
    assert not options or f"imports '{CANARY}.run'" in errors
    assert call("inspect", str(received / "stranger.yaml"))[0] == 2


def test_settings_of_a_comparison_add_no_code_to_a_new_recipe(
    received: Path, call: Callable[..., tuple[int, str]]
) -> None:
    grid = json.loads((received / "grid.json").read_text(encoding="utf-8"))
    grid["overrides"] = [f"model.loss={{name: {CANARY}.run}}"]
    (received / "grid.json").write_text(json.dumps(grid), encoding="utf-8")
    code, errors = call("compare", str(received), "quickstart/lstm_bahdanau")
    assert code == 2
    assert f"imports '{CANARY}.run'" in errors


# ------------------------------------------------------------------ the same mistakes elsewhere


@pytest.mark.parametrize("name", ["../../../victim", "/victim", ".."])
def test_recipes_of_a_sweep_stay_inside(
    name: str, received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    name = str(victim) if name == "/victim" else name
    (received / "sweep.json").write_text(
        json.dumps({"spaces": {name: {}}, "trials": 1}), encoding="utf-8"
    )
    code, errors = call("sweep", "--resume", str(received))
    assert code == 2
    assert "sweep.json" in errors


def test_no_link_of_a_sweep_is_followed_out(
    received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    (received / "sweep.json").write_text(
        json.dumps({"spaces": {"lstm": {}}, "trials": 1}), encoding="utf-8"
    )
    (received / "best").symlink_to(victim, target_is_directory=True)
    code, errors = call("sweep", "--resume", str(received))
    assert code == 2
    assert str(received / "best") in errors


@pytest.mark.parametrize("link", ["generation", "configs"])
def test_tuned_settings_are_not_written_through_links(
    link: str, received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    run = received / "runs" / "lstm" / "seed-1"
    (run / link).symlink_to(victim, target_is_directory=True)
    code, errors = call("tune-generation", str(run), "--examples", "2")
    assert code == 2
    assert str(run / link) in errors


def test_compared_runs_are_not_written_through_links(
    received: Path, victim: Path, call: Callable[..., tuple[int, str]]
) -> None:
    lstm, transformer = (
        received / "runs" / family / "seed-1" for family in ("lstm", "transformer")
    )
    (lstm / "evaluation" / "test").rename(victim.parent / "elsewhere")
    (lstm / "evaluation" / "test").symlink_to(victim.parent / "elsewhere", target_is_directory=True)
    code, errors = call("compare", str(lstm), str(transformer), "--output", str(received / "out"))
    assert code == 2
    assert str(lstm / "evaluation" / "test") in errors
