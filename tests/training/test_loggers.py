"""What a run leaves for its reader, with nobody logged in, no network, and secrets lying about."""

from __future__ import annotations

import json
import math
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
from PIL import Image

import dialog
from dialog.config.schema import to_dict
from dialog.data.tokenizers.tokenizer import PAD
from dialog.report.drawing.image import heatmap_grid
from dialog.runs.train import train
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO
from dialog.training.loggers import RecordLogger, wandb_mode

SECRETS = {
    "MY_TOKEN": "planted-in-the-environment-5f2c",
    "AWS_SECRET_ACCESS_KEY": "planted-in-the-environment-77aa",
    "argv": "planted-in-the-arguments-91d0",
}

COMMAND = '''
"""The command line, with an eye on who is called."""
import sys

LOCAL = ("127.0.0.1", "::1", "localhost", None)


def watch(event, arguments):
    if event == "socket.connect":
        host = arguments[1] if isinstance(arguments[1], (str, bytes)) else arguments[1][0]
        outside = not isinstance(arguments[1], (str, bytes)) and host not in LOCAL
    elif event == "socket.getaddrinfo":
        outside = (host := arguments[0]) not in LOCAL
    else:
        return
    if outside:
        raise SystemExit(f"called {host}")


sys.addaudithook(watch)
from dialog.cli import program

program.main(sys.argv[1:-1], standalone_mode=False)  # the last argument is a secret
'''

PROCESSES = '''
"""Two processes train one network."""
import sys
from pathlib import Path

import torch

torch.set_num_threads(1)

import dialog
from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import PAD
from dialog.training.callbacks.attention import AttentionRecorder
from dialog.training.loggers import build_loggers, close
from dialog.training.trainer import build_trainer, quiet

data, folder = map(Path, sys.argv[1:3])
settings = dialog.compose("quickstart/lstm_bahdanau").recipe.trainer
quiet()
torch.manual_seed(1)
model = dialog.compose("quickstart/lstm_bahdanau", ["model.embedding_size=16", "model.encoder.size=16",
    "model.decoder.size=16", "model.decoder.attention.size=8"]).recipe.model
module = dialog.DialogModule(dialog.build_model(model, len(Store(data, "train").tokenizer)), padding=PAD)
loggers = build_loggers({"name": "wandb"}, folder)
trainer = build_trainer(
    {**vars(settings), "devices": 2, "strategy": "ddp", "accelerator": "cpu", "max_steps": 5, "log_every_n_steps": 1,
     "val_check_interval": 5, "enable_progress_bar": False},
    folder=folder, loggers=loggers, seed=0, every_n_steps=None, patience=None,
    callbacks=[AttentionRecorder(folder, Store(data, "validation"))],
)
trainer.fit(module, dialog.DialogDataModule(data, batch_tokens=600))
close(loggers)
(folder / f"rank-{trainer.global_rank}.txt").write_text(str(module.target_tokens))
'''


def bare_environment(home: Path, **added: str) -> dict[str, str]:
    """No account, and a home of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB", "DIALOG_DEBUG"))}
    for key in ("NETRC", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "PL_GLOBAL_SEED"):
        kept.pop(key, None)
    home.mkdir()
    return {**kept, "HOME": str(home), "OMP_NUM_THREADS": "1", **added}


def execute(script: str, folder: Path, arguments: Sequence[str], environment: dict[str, str]) -> None:
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# ------------------------------------------------------------------ Weights & Biases


@dataclass
class Offline:
    """What is in the .wandb file of an offline run."""

    folder: Path
    config: dict[str, Any]
    rows: list[dict[str, Any]]

    def values(self, key: str) -> list[Any]:
        return [row[key] for row in self.rows if key in row]


def messages(content: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, after a header of 7 bytes: blocks of 32 KiB, records in parts."""
    assert content[:4] == b":W&B"
    place, message = 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:  # the rest of a block that holds no header is filler
            place += left
            continue
        _, size, part = struct.unpack_from("<IHB", content, place)
        chunk = content[place + 7 : place + 7 + size]
        place += 7 + size
        message = chunk if part in (1, 2) else message + chunk
        if part in (1, 4):
            yield message


def read_offline(folder: Path) -> Offline:
    from wandb.proto import wandb_internal_pb2

    (file,) = folder.glob("*.wandb")
    config: dict[str, Any] = {}
    rows = []
    for message in messages(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(message)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            rows.append(gathered({}, record.history.item))
        if kind in ("config", "run"):
            gathered(config, record.config.update if kind == "config" else record.run.config.update)
    return Offline(folder, config, rows)


def gathered(tree: dict[str, Any], items: Any) -> dict[str, Any]:  # noqa: ANN401 - a message of wandb's
    """Lay keys, or paths of keys, into a tree."""
    for each in items:
        *path, last = [each.key] if each.key else each.nested_key
        branch = tree
        for key in path:
            branch = branch.setdefault(key, {})
        branch[last] = json.loads(each.value_json)
    return tree


@pytest.fixture(scope="module")
def shown(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Offline, dialog.Recipe]:
    """A run of the command line with logger=wandb; every way out leads into a trap."""
    place = tmp_path_factory.mktemp("wandb")
    overrides = ["logger=wandb", "trainer.max_steps=6", "trainer.val_check_interval=3", "trainer.log_every_n_steps=1"]
    recipe = tiny("transformer", *overrides)
    (place / "mine.yaml").write_text(recipe.yaml(), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as trap:
        proxy = f"http://127.0.0.1:{trap.getsockname()[1]}"
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), proxy)
        planted = {key: value for key, value in SECRETS.items() if key != "argv"}
        environment = bare_environment(place / "home", **proxies, **planted)
        arguments = ["train", "mine.yaml", "--output", "run", SECRETS["argv"]]
        execute(COMMAND, place, arguments, environment)
        assert callers(trap) == []
    (folder,) = (place / "run" / "wandb").glob("offline-run-*")
    return place / "run", read_offline(folder), recipe.recipe


def callers(trap: socket.socket) -> list[bytes]:
    """What those who have knocked want."""
    trap.setblocking(False)
    found = []
    while True:
        try:
            caller, _ = trap.accept()
        except BlockingIOError:
            return found
        with caller:
            caller.settimeout(5)
            found.append(caller.recv(1000))


def test_an_offline_run_tells_all(shown: tuple[Path, Offline, dialog.Recipe]) -> None:
    run, offline, recipe = shown
    expected = json.loads(json.dumps(to_dict(recipe)))
    assert {key: offline.config[key] for key in expected} == expected
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    for key in ("train/loss", "train/learning_rate", "train/gradient_norm", "train/tokens_per_second", "train/tokens"):
        assert offline.values(key) == pytest.approx([line[key] for line in lines if key in line]), key
        assert len(offline.values(key)) == 6
    for key in ("loss", "perplexity", "bits_per_byte", "token_accuracy"):
        found = offline.values(f"validation/{key}")
        assert found == pytest.approx([line[f"validation/{key}"] for line in lines if f"validation/{key}" in line])
        assert len(found) == 2
    assert all("trainer/global_step" in row for row in offline.rows if any("/" in key for key in row))
    assert len({row["trainer/global_step"] for row in offline.rows if "train/loss" in row}) == 6


def test_the_record(shown: tuple[Path, Offline, dialog.Recipe]) -> None:
    lines = [json.loads(line) for line in (shown[0] / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        assert list(line)[:3] == ["step", "epoch", "time"]
        assert isinstance(line["step"], int)
        assert isinstance(line["epoch"], int)
    times = [line["time"] for line in lines]
    assert times == sorted(times)
    trained = [line for line in lines if "train/loss" in line]
    assert len({line["step"] for line in trained}) == len(trained) == 6
    tokens = [line["train/tokens"] for line in trained]
    summary = json.loads((shown[0] / "summary.json").read_text(encoding="utf-8"))
    assert tokens == sorted(tokens)
    assert tokens[-1] == summary["target_tokens"]
    assert summary["steps"] == 6
    assert all(line["train/tokens_per_second"] > 0 for line in trained)


def test_the_record_is_json_whatever_the_numbers(tmp_path: Path) -> None:
    record = RecordLogger(tmp_path)
    record.log_metrics({"train/loss": float("nan"), "train/gradient_norm": float("inf"), "epoch": 0}, 3)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    line = json.loads((tmp_path / "metrics.jsonl").read_text(encoding="utf-8"), parse_constant=refuse)
    assert (line["step"], line["train/loss"], line["train/gradient_norm"]) == (3, None, None)


ATTENTIONS = {
    "encoder.layers.0.self_attention": ("self", "source", "source"),
    "encoder.layers.1.self_attention": ("self", "source", "source"),
    "decoder.layers.0.self_attention": ("self", "target", "target"),
    "decoder.layers.0.cross_attention": ("cross", "target", "source"),
    "decoder.layers.1.self_attention": ("self", "target", "target"),
    "decoder.layers.1.cross_attention": ("cross", "target", "source"),
}


def recorded(run: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The raw maps by step and example."""
    paths = sorted((run / "attention").glob("step-*/*.json"))
    return {(path.parent.name, path.stem): json.loads(path.read_text(encoding="utf-8")) for path in paths}


def test_raw_attention_of_every_layer_and_head(shown: tuple[Path, Offline, dialog.Recipe]) -> None:
    maps = recorded(shown[0])
    assert {step for step, _ in maps} == {"step-3", "step-6"}
    assert len(maps) == 8
    for each in maps.values():
        assert each["context_tokens"][-1] == each["response_tokens"][-1] == "</s>"
        assert each["context_tokens"][0] in ("<self>", "<other>")
        assert "<pad>" not in each["context_tokens"] + each["response_tokens"]
        assert {one["name"] for one in each["maps"]} == set(ATTENTIONS)
        sizes = {"source": len(each["context_tokens"]), "target": len(each["response_tokens"])}
        for one in each["maps"]:
            kind, rows, columns = ATTENTIONS[one["name"]]
            weights = np.array(one["weights"])
            assert one["kind"] == kind
            assert weights.shape == (2, sizes[rows], sizes[columns])
            assert weights.min() >= 0
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
            if one["name"].startswith("decoder") and kind == "self":
                assert np.triu(weights, 1).max() == 0  # nobody reads what is not yet said
    first, last = ({row: each for (step, row), each in maps.items() if step == name} for name in ("step-3", "step-6"))
    assert first.keys() == last.keys()
    for row, each in first.items():
        assert each["response_tokens"] == last[row]["response_tokens"]
        assert each["maps"] != last[row]["maps"]


def test_attention_is_shown_as_images_with_a_panel_a_head(shown: tuple[Path, Offline, dialog.Recipe]) -> None:
    run, offline, _ = shown
    pictures = [row for row in offline.rows if any(key.startswith("attention/") for key in row)]
    steps = sorted({step for step, _ in recorded(run)})
    seen = 0
    for (step, example), each in recorded(run).items():
        at = int(step.removeprefix("step-"))
        (row,) = (
            one
            for one in pictures
            if one["trainer/global_step"] == at and any(key.startswith(f"attention/{example}/") for key in one)
        )
        for one in each["maps"]:
            entry = row[f"attention/{example}/{one['name']}"]
            assert entry["_type"] == "image-file"
            said, read = each["response_tokens"], each["context_tokens"]
            rows = said if one["side"] == "target" else read
            columns = read if "source" in ATTENTIONS[one["name"]][2] else ["<s>", *said[:-1]]
            expected = heatmap_grid(one["weights"], rows=rows, columns=columns, title=one["name"])
            with Image.open(offline.folder / "files" / entry["path"]) as picture:
                assert np.array_equal(np.asarray(picture), np.asarray(expected))
            seen += 1
    assert seen == len(ATTENTIONS) * 4 * len(steps) == len(list(offline.folder.glob("files/media/images/**/*.png")))


def test_no_secret_is_written(shown: tuple[Path, Offline, dialog.Recipe]) -> None:
    refuse_secrets(shown[0])


def refuse_secrets(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        for secret in SECRETS.values():
            assert secret.encode() not in content, path


def test_the_run_does_not_name_its_user(shown: tuple[Path, Offline, dialog.Recipe]) -> None:
    environment = json.loads((shown[0] / "environment.json").read_text(encoding="utf-8"))
    assert {"python", "torch", "lightning", "git", "seed", "data", "tokenizer", "cpu", "gpu"} <= environment.keys()
    assert not any(socket.gethostname() == value or "/" in str(value) for value in environment.values())


@pytest.mark.parametrize(
    ("machine", "environment", "mode"),
    [
        ("api.wandb.ai", {}, "online"),
        ("api.forge.coreweave.com", {}, "online"),
        ("example.org", {}, "offline"),
        ("wandb.example.org", {"WANDB_BASE_URL": "https://wandb.example.org"}, "online"),
        ("api.wandb.ai", {"WANDB_BASE_URL": "https://wandb.example.org"}, "offline"),
        ("api.wandb.ai", {"WANDB_MODE": "offline"}, "offline"),
        ("example.org", {"WANDB_API_KEY": "x" * 40}, "online"),
        ("example.org", {"WANDB_API_KEY": "x" * 40, "WANDB_MODE": "disabled"}, "disabled"),
    ],
)
def test_online_only_for_whom_is_logged_in(
    machine: str, environment: dict[str, str], mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert wandb_mode() == "offline"
    (tmp_path / ".netrc").write_text(f"machine {machine}\n login user\n password {'x' * 40}\n", encoding="utf-8")
    (tmp_path / ".netrc").chmod(0o600)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wandb_mode() == mode


# ------------------------------------------------------------------ several processes


def test_two_processes_leave_one_run(prepared: Path, tmp_path: Path) -> None:
    """Also with a key at hand when W&B is told to stay offline."""
    key = SECRETS["MY_TOKEN"].ljust(40, "0")
    environment = bare_environment(tmp_path / "home", WANDB_MODE="offline", WANDB_API_KEY=key)
    folder = tmp_path / "run"
    folder.mkdir()
    execute(PROCESSES, tmp_path, [str(prepared), str(folder)], environment)
    assert {path.name for path in folder.glob("rank-*")} == {"rank-0.txt", "rank-1.txt"}
    (wandb,) = (folder / "wandb").glob("*run-*-*")
    offline = read_offline(wandb)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    trained = [line["step"] for line in lines if "train/loss" in line]
    assert len(trained) == len(set(trained)) == 5
    assert len(offline.values("train/loss")) == 5
    (loss,) = (line["validation/loss"] for line in lines if "validation/loss" in line)
    assert len(list((folder / "attention").glob("*/*.json"))) == 4
    refuse_secrets(folder)
    assert validation_loss(folder, prepared) == pytest.approx(loss, rel=1e-6)  # both processes' examples count once


def validation_loss(folder: Path, prepared: Path) -> float:
    """Of the best weights, by one process."""
    sizes = [
        "model.embedding_size=16",
        "model.encoder.size=16",
        "model.decoder.size=16",
        "model.decoder.attention.size=8",
    ]
    data = dialog.DialogDataModule(prepared, batch_tokens=2000)
    vocabulary = len(data.val_dataloader().store.tokenizer)
    model = dialog.build_model(dialog.compose("quickstart/lstm_bahdanau", sizes).recipe.model, vocabulary)
    module = dialog.DialogModule(model, padding=PAD)
    state = SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / "best.ckpt")["state_dict"]
    module.load_state_dict(state)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False
    )
    found = trainer.validate(module, data, verbose=False)[0]["validation/loss"]
    assert math.isfinite(found)
    return found


# ------------------------------------------------------------------ other loggers


@pytest.mark.parametrize("logger", ["tensorboard", "none"])
def test_other_loggers(tiny: Callable[..., Any], tmp_path: Path, logger: str) -> None:
    if logger == "tensorboard":
        pytest.importorskip("tensorboard")
    steps = ["trainer.max_steps=2", "trainer.log_every_n_steps=1"]
    train(tiny("lstm", f"logger={logger}", *steps), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "wandb").exists()
    events = list((tmp_path / "run").rglob("events.out.tfevents.*"))
    assert len(events) == (logger == "tensorboard")
    assert len((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    for event in events:
        assert b"train/loss" in event.read_bytes()
