"""Runs in Weights & Biases: offline without an account, complete, without network access and
without secrets.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from processes import Server
from wandb_file import Offline, read_offline

import dialog
from dialog.build import for_this_hardware
from dialog.config.schema import to_dict
from dialog.report.drawing.image import heatmap_grid
from dialog.runs.evaluation.evaluate import evaluate
from dialog.training.callbacks.attention_views import read_maps
from dialog.training.callbacks.replies import ANSWERED

SECRETS = {
    "MY_TOKEN": "planted-in-the-environment-5f2c",
    "AWS_SECRET_ACCESS_KEY": "planted-in-the-environment-77aa",
    "argv": "planted-in-the-arguments-91d0",
}

COMMAND = '''
"""The command line, which exits on a network connection."""
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


def bare_environment(home: Path, **added: str) -> dict[str, str]:
    """Return variables without an account and with a new home folder."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("WANDB", "DIALOG_DEBUG"))
    }
    for key in ("NETRC", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "PL_GLOBAL_SEED"):
        kept.pop(key, None)
    home.mkdir()
    return {**kept, "HOME": str(home), "OMP_NUM_THREADS": "1", **added}


def execute(
    script: str, folder: Path, arguments: Sequence[str], environment: dict[str, str]
) -> None:
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


@pytest.fixture(scope="module")
def offline_run(
    tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Offline, dialog.Recipe]:
    """A run of the command line with logger=wandb; proxies lead to a trap that notices
    connections.
    """
    place = tmp_path_factory.mktemp("wandb")
    overrides = [
        "logger=wandb",
        "logger.self_attention=true",
        "logger.artifact=best",
        "trainer.max_steps=6",
        "trainer.val_check_interval=3",
        "trainer.log_every_n_steps=1",
    ]
    recipe = tiny("transformer", *overrides)
    (place / "mine.yaml").write_text(recipe.yaml(), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as trap:
        proxy = f"http://127.0.0.1:{trap.getsockname()[1]}"
        proxies = dict.fromkeys(
            ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), proxy
        )
        planted = {key: value for key, value in SECRETS.items() if key != "argv"}
        environment = bare_environment(place / "home", **proxies, **planted)
        arguments = ["train", "mine.yaml", "--output", "run", SECRETS["argv"]]
        execute(COMMAND, place, arguments, environment)
        assert requests(trap) == []
    (folder,) = (place / "run" / "wandb").glob("offline-run-*")
    return place / "run", read_offline(folder), recipe.recipe


def requests(trap: socket.socket) -> list[bytes]:
    """Return the beginnings of the requests that have arrived."""
    trap.setblocking(False)
    received = []
    while True:
        try:
            caller, _ = trap.accept()
        except BlockingIOError:
            return received
        with caller:
            caller.settimeout(5)
            received.append(caller.recv(1000))


def test_offline_run_has_recipe_and_metrics(
    offline_run: tuple[Path, Offline, dialog.Recipe],
) -> None:
    run, offline, recipe = offline_run
    expected = json.loads(json.dumps(to_dict(for_this_hardware(recipe))))
    expected["logger"] |= {"run_name": "mine", "tags": ["transformer", "builtin"]}
    assert offline.labels == ("mine", "", {"transformer", "builtin"})
    assert {key: offline.config[key] for key in expected} == expected
    lines = [
        json.loads(line)
        for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for key in (
        "train/loss",
        "train/learning_rate",
        "train/gradient_norm",
        "train/tokens_per_second",
        "train/tokens",
    ):
        assert offline.values(key) == pytest.approx([line[key] for line in lines if key in line]), (
            key
        )
        assert len(offline.values(key)) == 6
    for key in ("loss", "perplexity", "bits_per_byte", "token_accuracy"):
        values = offline.values(f"validation/{key}")
        assert values == pytest.approx(
            [line[f"validation/{key}"] for line in lines if f"validation/{key}" in line]
        )
        assert len(values) == 2
    assert all(
        "trainer/global_step" in row for row in offline.rows if any("/" in key for key in row)
    )
    assert len({row["trainer/global_step"] for row in offline.rows if "train/loss" in row}) == 6


def test_record_has_every_step_once(offline_run: tuple[Path, Offline, dialog.Recipe]) -> None:
    lines = [
        json.loads(line)
        for line in (offline_run[0] / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    for line in lines:
        assert list(line)[:3] == ["step", "epoch", "time"]
        assert isinstance(line["step"], int)
        assert isinstance(line["epoch"], int)
    times = [line["time"] for line in lines]
    assert times == sorted(times)
    trained = [line for line in lines if "train/loss" in line]
    assert len({line["step"] for line in trained}) == len(trained) == 6
    tokens = [line["train/tokens"] for line in trained]
    summary = json.loads((offline_run[0] / "summary.json").read_text(encoding="utf-8"))
    assert tokens == sorted(tokens)
    assert tokens[-1] == summary["target_tokens"]
    assert summary["steps"] == 6
    assert all(line["train/tokens_per_second"] > 0 for line in trained)


ATTENTIONS = {
    "encoder.layers.0.self_attention": ("self", "source", "source"),
    "encoder.layers.1.self_attention": ("self", "source", "source"),
    "decoder.layers.0.self_attention": ("self", "target", "target"),
    "decoder.layers.0.cross_attention": ("cross", "target", "source"),
    "decoder.layers.1.self_attention": ("self", "target", "target"),
    "decoder.layers.1.cross_attention": ("cross", "target", "source"),
}


def recorded(run: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the maps by step and example."""
    paths = sorted((run / "attention").glob("step-*/*.json"))
    return {
        (path.parent.name, path.stem): json.loads(path.read_text(encoding="utf-8"))
        for path in paths
    }


def test_maps_of_every_layer_and_head_are_written(
    offline_run: tuple[Path, Offline, dialog.Recipe],
) -> None:
    maps = recorded(offline_run[0])
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
                assert np.triu(weights, 1).max() == 0  # causal
    first, last = (
        {row: each for (step, row), each in maps.items() if step == name}
        for name in ("step-3", "step-6")
    )
    assert first.keys() == last.keys()
    for row, each in first.items():
        assert each["response_tokens"] == last[row]["response_tokens"]
        assert each["maps"] != last[row]["maps"]


def test_maps_are_logged_as_images(offline_run: tuple[Path, Offline, dialog.Recipe]) -> None:
    run, offline, _ = offline_run
    pictures = [row for row in offline.rows if any(key.startswith("attention/") for key in row)]
    steps = sorted({step for step, _ in recorded(run)})
    images = 0
    drawn = sorted(int(path.stem) for path in (run / "attention" / "step-3").glob("*.json"))[:1]
    for (step, example), each in recorded(run).items():
        if int(example) not in drawn:
            continue
        at = int(step.removeprefix("step-"))
        (row,) = (
            one
            for one in pictures
            if one["trainer/global_step"] == at
            and any(key.startswith(f"attention/{example}/") for key in one)
        )
        for one in read_maps(run / "attention" / step / f"{example}.npz")["maps"]:
            entry = row[f"attention/{example}/{one['name']}"]
            assert entry["_type"] == "image-file"
            response, context = each["response_tokens"], each["context_tokens"]
            rows = response if one["side"] == "target" else context
            columns = context if "source" in ATTENTIONS[one["name"]][2] else ["<s>", *response[:-1]]
            expected = heatmap_grid(one["weights"], rows=rows, columns=columns, title=one["name"])
            with Image.open(offline.folder / "files" / entry["path"]) as picture:
                assert np.array_equal(np.asarray(picture), np.asarray(expected))
            images += 1
    assert (
        images
        == len(ATTENTIONS) * len(steps)
        == len(list(offline.folder.glob("files/media/images/**/*.png")))
    )


def test_a_page_and_a_table_of_every_head_are_logged(
    offline_run: tuple[Path, Offline, dialog.Recipe],
) -> None:
    run, offline, _ = offline_run
    files = offline.folder / "files"
    pages = [
        (files / entry["path"]).read_text(encoding="utf-8")
        for entry in offline.values("attention/panel")
    ]
    assert [sorted(set(re.findall(r'"label":"(step \d+)"', page))) for page in pages] == [
        ["step 3"],
        ["step 3", "step 6"],
    ]
    tables = [
        json.loads((files / entry["path"]).read_text("utf-8"))
        for entry in offline.values("attention/heads")
    ]
    assert len(tables) == 2
    for step, table in zip((3, 6), tables, strict=True):
        rows = [dict(zip(table["columns"], values, strict=True)) for values in table["data"]]
        assert {(row["step"], row["example"], row["module"], row["head"]) for row in rows} == {
            (step, int(example), name, head)
            for _, example in recorded(run)
            for name, (kind, *_) in ATTENTIONS.items()
            for head in range(2)
            if kind == "cross"
        }
        for row in rows:
            each = recorded(run)[f"step-{step}", str(row["example"])]
            assert row["context"].split(" ") == each["context_tokens"]
            (weights,) = (
                np.array(one["weights"]) for one in each["maps"] if one["name"] == row["module"]
            )
            assert row["sharpness"] == pytest.approx(weights[row["head"]].max(-1).mean(), abs=1e-4)
            first = each["context_tokens"][weights[row["head"], 0].argmax()]
            assert row["strongest"].startswith(f"{each['response_tokens'][0]}→{first} ")


def test_replies_are_logged_at_each_validation(
    offline_run: tuple[Path, Offline, dialog.Recipe],
) -> None:
    run, offline, _ = offline_run
    tables = [
        json.loads((offline.folder / "files" / entry["path"]).read_text("utf-8"))
        for entry in offline.values("validation/replies")
    ]
    first, last = (
        [dict(zip(table["columns"], values, strict=True)) for values in table["data"]]
        for table in tables
    )
    assert {row["step"] for row in first} == {3}
    assert {row["step"] for row in last} == {6}
    assert [row["id"] for row in first] == [row["id"] for row in last]
    assert len(last) == ANSWERED
    answering = dialog.load(run)
    for row in last:
        assert row["context"]
        assert row["reference"]
        reply = answering.respond(row["context"].split("\n"), search={"name": "greedy"})
        assert reply.text == row["reply"]
        assert reply.candidates[0].score == pytest.approx(row["score"], abs=1e-3)


def test_model_is_an_artifact(offline_run: tuple[Path, Offline, dialog.Recipe]) -> None:
    """With which one can answer, from its files alone."""
    run, offline, _ = offline_run
    (names,) = (names for kind, names in offline.artifacts if kind == "model")
    assert {"recipe.yaml", "tokenizer.json", "model.safetensors", "manifest.json"} <= names
    assert names == {path.name for path in run.iterdir()} & names


def test_summary_is_the_best_value(offline_run: tuple[Path, Offline, dialog.Recipe]) -> None:
    _, offline, _ = offline_run
    assert offline.summaries["validation/bits_per_byte"] == {"min"}
    assert offline.summaries["validation/token_accuracy"] == {"max"}


def test_no_secret_is_written(offline_run: tuple[Path, Offline, dialog.Recipe]) -> None:
    check_no_secrets(offline_run[0])


def check_no_secrets(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        for secret in SECRETS.values():
            assert secret.encode() not in content, path


def test_environment_names_neither_user_nor_host(
    offline_run: tuple[Path, Offline, dialog.Recipe],
) -> None:
    environment = json.loads((offline_run[0] / "environment.json").read_text(encoding="utf-8"))
    assert {
        "python",
        "torch",
        "lightning",
        "git",
        "seed",
        "data",
        "tokenizer",
        "cpu",
        "gpu",
    } <= environment.keys()
    assert not any(
        socket.gethostname() == value or "/" in str(value) for value in environment.values()
    )


@pytest.mark.endurance
def test_two_ranks_write_one_offline_run(
    server: Server, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """Although a key is set, as WANDB_MODE is offline."""
    overrides = [
        "trainer.max_steps=4",
        "trainer.val_check_interval=4",
        "trainer.log_every_n_steps=1",
    ]
    (tmp_path / "mine.yaml").write_text(
        tiny("lstm", "logger=wandb", "trainer.devices=2", *overrides).yaml(), encoding="utf-8"
    )
    environment = {"WANDB_MODE": "offline", "WANDB_API_KEY": SECRETS["MY_TOKEN"].ljust(40, "0")}
    folder = tmp_path / "run"
    command = ["train", str(tmp_path / "mine.yaml"), "--output", str(folder)]
    training = server.start(*command, world=2, environment=environment)
    assert training.wait() == [0, 0], training.output
    (offline_folder,) = (folder / "wandb").glob("*run-*-*")
    lines = [
        json.loads(line)
        for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    steps = [line["step"] for line in lines if "train/loss" in line]
    assert len(steps) == len(set(steps)) == 4
    assert len(read_offline(offline_folder).values("train/loss")) == 4
    assert len(list((folder / "attention").glob("*/*.json"))) == 4
    check_no_secrets(folder)
    (loss,) = (line["validation/loss"] for line in lines if "validation/loss" in line)
    metrics = evaluate(dialog.load(folder), "validation", quiet=True).metrics
    # each example counts once
    assert metrics["nll_nats"] / metrics["tokens"] == pytest.approx(loss, rel=1e-6)
