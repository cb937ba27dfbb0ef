"""benchmarks/training.py with this package alone: a short real run, its records and its tables."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import pytest

import dialog

SCRIPTS = Path(dialog.__file__).parents[1] / "benchmarks"
TITLES = {"dialog": "dialog", "one": "One 1.0"}


def loaded(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table() -> ModuleType:
    return loaded(SCRIPTS / "training_table.py")


def harness(folder: Path, *arguments: str) -> str:
    """A real process, whose cache is the tests'."""
    command = [
        sys.executable,
        SCRIPTS / "training.py",
        "--quick",
        "--results",
        "results.jsonl",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.endurance
def test_every_run_is_recorded_once(tmp_path: Path) -> None:
    chosen = ("--systems", "dialog", "loop", "--families", "lstm", "--precisions", "32-true")
    printed = harness(tmp_path, *chosen)
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line["row"]["system"] for line in lines] == ["dialog", "loop"]
    ours, loop = (line["figures"] for line in lines)
    assert len(ours["each_step"]) == len(loop["each_step"]) == 2
    # the same batches of the same data
    for key in ("rows", "source_tokens", "target_tokens", "places"):
        assert [step[key] for step in ours["each_step"]] == [
            step[key] for step in loop["each_step"]
        ]
    assert ours["parameters"] == loop["parameters"]
    assert "| dialog | 32-true |" in printed
    before = (tmp_path / "results.jsonl").read_bytes()
    assert harness(tmp_path, *chosen) == printed
    assert (tmp_path / "results.jsonl").read_bytes() == before


@pytest.mark.endurance
def test_failed_run_is_named_and_the_others_continue(tmp_path: Path) -> None:
    chosen = ("--systems", "dialog", "--families", "lstm", "--precisions", "32-true")
    printed = harness(tmp_path, "model.nonsense=1", *chosen)
    assert "Not measured" in printed
    assert "nonsense" in printed
    assert "error" in json.loads((tmp_path / "results.jsonl").read_text())


def line(system: str, seconds: float, number: int = 0, length: int = 0, **more: float) -> dict:
    step = {
        "seconds": seconds,
        "rows": 2,
        "source_tokens": 30,
        "target_tokens": 10,
        "places": 50,
        **more,
    }
    figures = {"each_step": [step], "memory_bytes": 3 * 2**20, "parameters": 7}
    known = {
        "dialog": "0",
        "git": "x",
        "torch": "2",
        "python": "3",
        "cpu": "c",
        "cores": 2,
        "threads": 2,
    }
    row = {
        "system": system,
        "family": "lstm",
        "precision": "32-true",
        "length": length,
        "round": number,
    }
    return {
        "row": row,
        "figures": figures,
        "gemm": 4e9,
        "environment": known,
        "time": "2026-01-02T00:00:00",
    }


def test_the_steps_of_all_rounds_are_pooled(table: ModuleType) -> None:
    lines = [
        line("dialog", seconds, number, flops=2e9) for number, seconds in enumerate((1.0, 2.0, 4.0))
    ]
    text = table.as_markdown([*lines, line("one", 5.0)], TITLES)
    rows = [row for row in text.splitlines() if row.startswith("| ")]
    assert rows[2] == "| dialog | 32-true | 5 | 20 | 2,000 | 10 | 20% | 1 | 25% | 3 | 7 |"
    assert rows[3].startswith("| One 1.0 | 32-true | 2 | 8 | 5,000 |")


def test_lengths_stand_side_by_side(table: ModuleType) -> None:
    failed = {**line("one", 1.0, length=512), "error": "killed"}
    del failed["figures"]
    text = table.as_markdown(
        [line("dialog", 1.0, length=32), line("one", 0.5, length=512), failed], TITLES
    )
    assert "| dialog | 32-true | 1,000 (3) | – |" in text
    assert "| One 1.0 | 32-true | – | 500 (3) |" in text
    assert "- One 1.0, lstm, 32-true, source length 512: killed" in text


def test_flops_of_peers_agree_with_counted_flops(table: ModuleType) -> None:
    """The same sizes: what differs is the layer before the vocabulary, where ours is narrower."""
    import torch

    from dialog.analysis.flops import training_flops
    from dialog.models.seq2seq import Seq2Seq

    attention = {"name": "additive", "size": 512}
    lstm = Seq2Seq(
        8000,
        padding=0,
        embedding_size=256,
        encoder={"name": "lstm", "size": 512},
        decoder={"name": "lstm", "size": 512, "attention": attention},
    )
    part = {"name": "transformer", "layers": 3, "heads": 4, "feed_forward_size": 1024}
    transformer = Seq2Seq(8000, padding=0, embedding_size=256, encoder=part, decoder=part)
    step = {"source_tokens": 37, "target_tokens": 15, "rows": 1}
    with torch.no_grad():
        counted = {
            "lstm": training_flops(lstm.eval(), 37, 15),
            "transformer": training_flops(transformer.eval(), 37, 15),
        }
    assert counted["transformer"] == table.flops({"family": "transformer", "system": "one"}, step)
    narrower = 3 * 2 * 15 * (512 * 8000 + 1024 * 512 - 256 * 8000 - 2 * 256 * (512 + 256 + 512))
    found = table.flops({"family": "lstm", "system": "one"}, step) - narrower
    assert found == pytest.approx(counted["lstm"], rel=0.02)


# ------------------------------------------------------------------ devices


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_system_trains_on_the_device(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """Peers are not installed here: their modules are stubs, and their settings are read."""
    text = dict.fromkeys(("text", "work"), "folder")
    given = {**text, "device": device, "rows": 8, "examples": 9, "layers": 1, "family": "lstm"}
    given |= {"precision": "32-true", "vocabulary": 50, "system": "bare"}
    recorder = SimpleNamespace(Recorder=mock.Mock(), settings=lambda: given, lines=mock.Mock())
    modules = (
        "joeynmt joeynmt.model joeynmt.training eole eole.bin eole.bin.run eole.bin.run.train"
        " eole.config eole.config.run eole.models eole.models.model fairseq fairseq.models"
        " fairseq.models.lstm fairseq.models.transformer fairseq_cli fairseq_cli.train onmt"
        " onmt.bin onmt.bin.train onmt.models onmt.models.model"
    )
    for name in modules.split():
        monkeypatch.setitem(sys.modules, name, mock.MagicMock())
    monkeypatch.setitem(sys.modules, "recorder", recorder)

    def peer(name: str) -> ModuleType:
        return loaded(SCRIPTS / "peers" / f"train_{name}.py")

    on_gpu = device == "cuda"
    assert peer("joeynmt").configuration()["use_cuda"] is on_gpu
    assert peer("eole").configuration()["training"]["gpu_ranks"] == [0] * on_gpu
    assert peer("opennmt").configuration()["gpu_ranks"] == [0] * on_gpu
    assert ("--cpu" in peer("fairseq").options()) is not on_gpu


def test_a_torch_without_cuda_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (tmp_path / "settings.json").write_text('{"device": "cuda"}')
    monkeypatch.setattr(sys, "argv", ["train", str(tmp_path / "settings.json")])
    with pytest.raises(SystemExit, match="CUDA"):
        loaded(SCRIPTS / "peers" / "recorder.py").settings()
