"""Initial weights from a run or from word vectors, and frozen modules."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import dialog
from dialog.build import build_model
from dialog.data.tokenizers import characters
from dialog.data.tokenizers.tokenizer import PAD, SPECIAL_TOKENS, Tokenizer
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.train import resume, train
from dialog.training.checkpoints.initial_weights import freeze, load_from_run, load_vectors
from dialog.training.checkpoints.manifest import list_files

Tiny = Callable[..., Any]
SHORT = ["trainer.max_steps=2", "trainer.val_check_interval=2"]


def build(tiny: Tiny, vocabulary: int, *overrides: str, family: str = "transformer") -> Seq2Seq:
    torch.manual_seed(7)
    return build_model(tiny(family, *overrides).recipe.model, vocabulary)


def loaded(
    tiny: Tiny, folder: Path, *overrides: str, tokenizer: Tokenizer | None = None
) -> tuple[Seq2Seq, Any]:
    """Return a network with a run's weights, and the report."""
    tokenizer = tokenizer or Tokenizer.load(folder / "tokenizer.json")
    model = build(tiny, len(tokenizer), *overrides)
    larger = build(tiny, len(tokenizer) + 1, *overrides)
    return model, load_from_run(model, larger, tokenizer, folder)


@pytest.fixture
def source(trained: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a run folder whose recipe would import code."""
    folder = Path(shutil.copytree(trained("transformer"), tmp_path / "source"))
    (folder / "recipe.yaml").write_text(
        "model: {encoder: {name: evil.Encoder}}\n", encoding="utf-8"
    )
    return folder


# ------------------------------------------------------------------ another run


def test_all_weights_of_the_same_architecture_are_loaded(tiny: Tiny, source: Path) -> None:
    model, report = loaded(tiny, source)
    for name, value in load_file(source / "model.safetensors").items():
        assert torch.equal(model.state_dict()[name], value), name
    assert (report["missing"], report["unlike"], report["unused"]) == ([], {}, [])
    assert (
        model.head.weight
        is model.source_embedding.table.weight
        is model.target_embedding.table.weight
    )


def test_untied_network_loads_tied_weights(tiny: Tiny, source: Path) -> None:
    model, report = loaded(tiny, source, "model.tie_embeddings=false")
    assert report["missing"] == []
    assert torch.equal(model.head.weight, model.source_embedding.table.weight)
    assert model.head.weight is not model.source_embedding.table.weight


def test_other_shapes_are_reported_and_keep_their_values(
    tiny: Tiny, source: Path, caplog: pytest.LogCaptureFixture
) -> None:
    overrides = ["model.encoder.layers=5", "model.decoder.feed_forward_size=50"]
    plain = build(tiny, 400, *overrides)
    with caplog.at_level(logging.INFO, "dialog"):
        model, report = loaded(tiny, source, *overrides)
    old = load_file(source / "model.safetensors")
    for name, value in model.named_parameters():
        expected = old.get(name, value) if name in report["taken"] else plain.get_parameter(name)
        assert torch.equal(value, expected), name
    assert report["missing"]
    assert all(name.startswith("encoder.layers.") for name in report["missing"])
    assert report["unlike"]
    assert all(
        "feed_forward" in name and each["here"] != each["there"]
        for name, each in report["unlike"].items()
    )
    (line,) = [record.getMessage() for record in caplog.records]
    left = [*report["missing"], *report["unlike"]]
    assert f"{len(report['taken'])} of {len(report['taken']) + len(left)} parameters" in line
    assert f"not loaded: {left[0]}, " in line
    assert f"and {len(left) - 3} more" in line


def test_tokens_are_matched_by_their_text(tiny: Tiny, source: Path) -> None:
    other = characters(["Zebra Hello Monday öß"] * 9)
    model, report = loaded(tiny, source, tokenizer=other)
    plain = build(tiny, len(other))
    table = load_file(source / "model.safetensors")
    old = next(value for value in table.values() if value.shape[0] == 400)
    there = {Tokenizer.load(source / "tokenizer.json").label(token): token for token in range(400)}
    rows = model.source_embedding.table.weight
    matched = 0
    for token in range(len(other)):
        match = there.get(other.label(token))
        matched += match is not None
        expected = plain.source_embedding.table.weight[token] if match is None else old[match]
        assert torch.equal(rows[token], expected), other.label(token)
    assert len(SPECIAL_TOKENS) < report["tokens"] == matched < len(other)
    assert torch.equal(
        model.encoder.get_parameter("layers.0.self_attention.query.weight"), table[QUERY]
    )


QUERY = "encoder.layers.0.self_attention.query.weight"


def test_run_of_a_different_architecture_is_rejected(tiny: Tiny, source: Path) -> None:
    save_file({"weight": torch.zeros(3)}, source / "model.safetensors")
    list_files(source, ["model.safetensors", "tokenizer.json"])
    with pytest.raises(UserError, match=r"model\.safetensors: no parameter matches this network"):
        loaded(tiny, source)


def test_damaged_weights_are_rejected(tiny: Tiny, source: Path) -> None:
    (source / "model.safetensors").write_bytes(b"\0" * 50)
    with pytest.raises(UserError, match=r"model\.safetensors: has changed"):
        loaded(tiny, source)
    (source / "manifest.json").unlink()  # as older versions wrote it
    with pytest.raises(UserError, match=r"model\.safetensors: cannot be read"):
        loaded(tiny, source)


# ------------------------------------------------------------------ frozen


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_frozen_modules_get_no_gradient(tiny: Tiny, family: str) -> None:
    model = build(tiny, 400, family=family)
    freeze(model, ["encoder", "head"])
    for name, parameter in model.named_parameters(remove_duplicate=False):
        shared = parameter is model.head.weight
        assert parameter.requires_grad != (name.startswith(("encoder.", "head.")) or shared), name


def test_unknown_module_cannot_be_frozen() -> None:
    network = nn.ModuleDict({"encoder": nn.Linear(2, 2), "head": nn.Linear(2, 2)})
    with pytest.raises(
        UserError,
        match=r"^frozen: the network has no module 'enc'; use one of encoder, head, or inside",
    ):
        freeze(network, ["enc"])


# ------------------------------------------------------------------ vectors


def test_embeddings_are_scaled_vectors(tiny: Tiny, source: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(source / "tokenizer.json")
    words = [tokenizer.label(token).strip("▁") for token in range(300, 320)]
    path = tmp_path / "v.txt"
    torch.manual_seed(1)
    values = {
        word.upper() if word == "" else word: 5 * torch.randn(24) + 1
        for word in dict.fromkeys(words)
    }
    path.write_text(
        "".join(f"{w} {' '.join(map(str, v.tolist()))}\n" for w, v in values.items()),
        encoding="utf-8",
    )
    model, plain = build(tiny, 400), build(tiny, 400)
    report = load_vectors(model, tokenizer, path)
    assert len(words) <= report["tokens"] < 400
    table, drawn = model.source_embedding.table.weight, plain.source_embedding.table.weight
    moved = [token for token in range(400) if not torch.equal(table[token], drawn[token])]
    assert len(moved) == report["tokens"]
    assert table[moved].square().mean().item() == pytest.approx(1 / 24, rel=1e-5)
    for token, word in zip(range(300, 320), words, strict=True):
        cosine = torch.cosine_similarity(table[token], values[word], dim=0)
        assert cosine.item() == pytest.approx(1, abs=1e-5)
    assert torch.equal(table[PAD], drawn[PAD])


def test_vectors_without_a_token_are_rejected(tiny: Tiny, source: Path, tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("žluťoučký " + "1 " * 24 + "\nbad\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"none of its 2 lines is a token's \(1 are malformed\)"):
        load_vectors(build(tiny, 400), Tokenizer.load(source / "tokenizer.json"), path)


# ------------------------------------------------------------------ whole runs


def test_run_does_not_need_its_source_run(tiny: Tiny, source: Path, tmp_path: Path) -> None:
    recipe = tiny("transformer", f"model.init_from={source}", "model.frozen=[encoder]", *SHORT)
    folder = train(recipe, tmp_path / "run", quiet=True).folder
    weights = load_file(source / "model.safetensors")
    shutil.rmtree(source)
    report = json.loads((folder / "initial.json").read_text(encoding="utf-8"))["init_from"]
    assert report["missing"] == []
    assert resume(folder, ["trainer.max_steps=4"], quiet=True).steps == 4
    run = dialog.load(folder)
    for name, value in run.model.named_parameters():
        if name in weights:
            assert torch.equal(value, weights[name]) == name.startswith("encoder."), name


def test_run_does_not_need_its_vectors(tiny: Tiny, tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text(
        "".join(f"{word} {' '.join(['0.5'] * 24)}\n" for word in ("the", "a", "is")),
        encoding="utf-8",
    )
    recipe = tiny("lstm", f"model.vectors={path}", "model.frozen=[source_embedding]", *SHORT)
    folder = train(recipe, tmp_path / "run", quiet=True).folder
    path.unlink()
    report = json.loads((folder / "initial.json").read_text(encoding="utf-8"))["vectors"]
    run = dialog.load(folder)
    rows = (run.model.source_embedding.table.weight - 24**-0.5).abs().amax(1) < 1e-6
    assert 0 < int(rows.sum()) == report["tokens"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["model.init_from=nowhere"],
            r"^nowhere/model\.safetensors does not exist; model\.init_from should",
        ),
        (["model.vectors=nowhere"], r"^nowhere does not exist; model\.vectors should"),
        (["model.init_from=a", "model.vectors=b"], r"^model\.init_from and model\.vectors both"),
        (
            ["model.frozen=[enc]"],
            r"^model: frozen: the network has no module 'enc'; use one of source_embedding",
        ),
        (
            ["model.frozen=[source_embedding,target_embedding,encoder,decoder,head]"],
            r"^optimizer: every parameter is frozen",
        ),
    ],
)
def test_invalid_sources_are_rejected_before_training(
    tiny: Tiny, tmp_path: Path, overrides: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        train(tiny("transformer", *overrides), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
