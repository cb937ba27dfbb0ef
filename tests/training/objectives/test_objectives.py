"""Joint training: what the auxiliary tasks look like, what they cost, and that responses alone are judged."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import dialog
from dialog.build import check_recipe
from dialog.data.batching import Batch, collate
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK, Tokenizer
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.train import train
from dialog.training.losses.coverage import coverage_loss
from dialog.training.objectives.noise import noised
from dialog.training.objectives.objectives import Denoising, Reverse, build_objectives
from dialog.training.objectives.unpaired_text import Utterances

Network = Callable[..., Seq2Seq]
Draw = Callable[..., Batch]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return byte_bpe(["Good morning , how are you ?", "Fine , and you ?"] * 3, vocabulary=280)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("Good morning\n\nhow are you ?\n  \nFine , and you ? Naïve café\n", encoding="utf-8")
    return path


def words(row: Tensor) -> list[int]:
    """The ids before the end of a row ``ids </s>``, whose padding is looked at too."""
    ids = row.tolist()
    end = ids.index(EOS)
    assert set(ids[end + 1 :]) <= {PAD}
    assert not {PAD, EOS} & set(ids[:end])
    return ids[:end]


# ------------------------------------------------------------------ noise


@pytest.fixture
def clean() -> Tensor:
    """2,000 rows of different ids, of 20 and of 12."""
    long = torch.arange(10, 30).repeat(1000, 1)
    end = torch.full((1000, 1), EOS)
    short = torch.cat([long[:, :12], end, torch.full((1000, 8), PAD)], 1)
    return torch.cat([torch.cat([long, end], 1), short])


def test_without_noise_nothing_changes(clean: Tensor) -> None:
    assert torch.equal(noised(clean, deletion=0.0, masking=0.0, distance=0), clean)


def test_deletion_leaves_the_order(clean: Tensor) -> None:
    torch.manual_seed(1)
    kept = [words(row) for row in noised(clean, deletion=0.3, masking=0.0, distance=0)]
    assert all(row == sorted(row) and len(row) == len(set(row)) for row in kept)
    assert sum(map(len, kept)) / 32_000 == pytest.approx(0.7, abs=0.01)
    shares = [sum(token in row for row in kept[:1000]) / 1000 for token in range(10, 30)]
    assert shares == pytest.approx([0.7] * 20, abs=0.06)  # wherever it stands
    assert not [words(row) for row in noised(clean, deletion=1.0, masking=0.0, distance=0) if words(row)]


def test_masking_hides_in_place(clean: Tensor) -> None:
    torch.manual_seed(1)
    found = noised(clean, deletion=0.0, masking=0.2, distance=0)
    hidden = found == UNK
    assert torch.equal(found.where(~hidden, clean), clean)
    assert hidden.sum().item() / 32_000 == pytest.approx(0.2, abs=0.01)
    assert not hidden[clean == EOS].any()


@pytest.mark.parametrize("distance", [1, 3])
def test_no_word_moves_further_than_it_may(clean: Tensor, distance: int) -> None:
    torch.manual_seed(1)
    moves = []
    for row, full in zip(noised(clean, deletion=0.0, masking=0.0, distance=distance), clean, strict=True):
        moved = words(row)
        assert sorted(moved) == words(full)
        moves += [abs(place - (token - 10)) for place, token in enumerate(moved)]
    assert max(moves) == distance
    assert sum(map(bool, moves)) / len(moves) > 0.2
    both = noised(clean, deletion=0.3, masking=0.0, distance=distance)
    for row in both:
        kept = words(row)
        assert max((abs(place - sorted(kept).index(token)) for place, token in enumerate(kept)), default=0) <= distance


# ------------------------------------------------------------------ tasks


def test_denoising_of_responses(batch: Draw) -> None:
    rows = batch()
    source, target = Denoising(deletion=0.0, masking=0.0, distance=0)(rows)
    assert torch.equal(target, rows.target)
    for heard, said in zip(source.tolist(), rows.target, strict=True):
        assert heard[:2] == [BOS, OTHER]
        assert words(torch.tensor(heard[2:])) == words(said[1:])


def test_denoising_is_a_function_of_the_random_state(batch: Draw) -> None:
    rows, objective = batch(), Denoising()
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(objective(rows).source)
    assert torch.equal(found[0], found[1])
    assert found[0].shape != found[2].shape or not torch.equal(found[0], found[2])


def test_reverse() -> None:
    pairs = [
        ([SELF, 7, 8, OTHER, 9, 10, 11, EOS], [BOS, 12, EOS]),
        ([OTHER, 9, EOS], [BOS, 13, 14, 15, EOS]),
        ([8, 9, EOS], [BOS, 13, EOS]),  # a source that is cut within its only turn
        ([EOS], [BOS, 16, EOS]),  # the first turn of a dialogue
    ]
    rows = collate(pairs, range(4))
    assert rows.last_turn == 3
    source, target = Reverse()(rows)
    assert source.tolist() == [
        [BOS, SELF, 12, EOS, PAD, PAD],
        [BOS, SELF, 13, 14, 15, EOS],
        [BOS, SELF, 13, EOS, PAD, PAD],
        [BOS, SELF, 16, EOS, PAD, PAD],
    ]
    assert target.tolist() == [
        [BOS, 9, 10, 11, EOS],
        [BOS, 9, EOS, PAD, PAD],
        [BOS, 8, 9, EOS, PAD],
        [BOS, PAD, PAD, PAD, PAD],
    ]


def test_reverse_never_says_a_fact() -> None:
    pairs = [
        ([SELF, 7, OTHER, 8, OTHER, 9, 10, EOS], [BOS, 12, EOS]),  # two facts, a turn
        ([SELF, 7, OTHER, 8, EOS], [BOS, 12, EOS]),  # two facts, and nothing was said
        ([SELF, 7, OTHER, 8, 10, EOS], [BOS, 12, EOS]),  # two facts, and the end of a turn that is cut
    ]
    rows = collate(pairs, range(3), facts=[4, 4, 4])
    assert rows.last_turn == 2
    _, target = Reverse()(rows)
    assert target.tolist() == [[BOS, 9, 10, EOS], [BOS, PAD, PAD, PAD], [BOS, 10, EOS, PAD]]


def test_no_source_of_a_dialogue_begins_as_a_task_does(prepared: Path) -> None:
    for rows in dialog.DialogDataModule(prepared, batch_tokens=1200).val_dataloader():
        assert not (rows.source == BOS).any()
        assert not (rows.source == UNK).any()
        assert all((objective(rows).source[:, 0] == BOS).all() for objective in (Denoising(), Reverse()))


# ------------------------------------------------------------------ unpaired text


def test_utterances_are_drawn_evenly(text: Path, tokenizer: Tokenizer) -> None:
    utterances = Utterances(text, tokenizer, max_tokens=64)
    assert len(utterances) == 3
    torch.manual_seed(1)
    drawn = [tokenizer.decode(words(row)) for row in utterances.draw(3000)]
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert [drawn.count(line) / 3000 for line in lines] == pytest.approx([1 / 3] * 3, abs=0.03)


def test_long_utterances_are_cut(text: Path, tokenizer: Tokenizer) -> None:
    torch.manual_seed(1)
    drawn = Utterances(text, tokenizer, max_tokens=4).draw(50)
    assert drawn.shape[1] == 4
    for row in drawn:
        assert any(line.startswith(tokenizer.decode(words(row))) for line in text.read_text("utf-8").splitlines())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "is not a regular file"),
        (Path.mkdir, "is not a regular file"),
        (lambda _: None, "does not exist"),
        (lambda path: path.write_bytes(b"a\xff\n"), "cannot be read"),
        (lambda path: path.write_bytes(b"\n \n"), "no line of the text"),
    ],
)
def test_what_is_no_text_is_refused_by_its_path(
    tmp_path: Path, tokenizer: Tokenizer, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "text")
    with pytest.raises(UserError, match=rf"^{tmp_path}/text\b.*{message}"):
        Utterances(tmp_path / "text", tokenizer, max_tokens=4)


def test_denoising_of_a_text(text: Path, tokenizer: Tokenizer, batch: Draw) -> None:
    torch.manual_seed(1)
    objective = Denoising(path=str(text), deletion=0.0, masking=0.0, distance=0, tokenizer=tokenizer)
    source, target = objective(batch(5))
    assert source[:, :2].tolist() == [[BOS, OTHER]] * 5
    assert target[:, 0].tolist() == [BOS] * 5
    lines = text.read_text("utf-8").splitlines()
    for heard, said in zip(source[:, 2:], target[:, 1:], strict=True):
        assert words(heard) == words(said)
        assert tokenizer.decode(words(said)) in lines
    with pytest.raises(ValueError, match="takes a tokenizer"):
        Denoising(path=str(text))(batch(5))


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe", None])
def test_a_text_that_is_none(content: bytes | None, tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"text\.txt"):
        Denoising(path=str(path), tokenizer=tokenizer)


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"name": "denoise"}, "did you mean 'denoising'"),
        ({"name": "denoising", "weight": -1.0}, "weight must be a number of at least 0"),
        ({"name": "denoising", "weight": "much"}, "weight must be a number of at least 0"),
        ({"name": "denoising", "deletion": 1.5}, r"deletion must be in \[0, 1\]"),
        ({"name": "denoising", "distance": -1}, "distance must be at least 0"),
        ({"name": "reverse", "schedule": {"name": "linear"}}, "linear: missing required argument: steps"),
        ({"name": "denoising", "tokenizer": 1}, "is set by the recipe's other parts"),
    ],
)
def test_what_cannot_be_learnt_is_refused(component: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_objectives([component], tokenizer=None)


# ------------------------------------------------------------------ in a step


def logs(made: dialog.DialogModule) -> dict[str, Tensor]:
    """What is logged of a step, once it has been made."""
    return {f"train/{name}": value for name, value in made.window.whole(1)[0].items()}


def mean_loss(model: Seq2Seq, source: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """torch's smoothed loss and likelihood of a task of its own."""
    logits = model(source, source != PAD, target[:, :-1]).flatten(0, 1)
    options = {"ignore_index": PAD, "reduction": "sum"}
    gold = target[:, 1:].flatten()
    sums = [
        torch.nn.functional.cross_entropy(logits, gold, label_smoothing=each, **options) for each in (smoothing, 0.0)
    ]
    return sums[0] / (gold != PAD).sum(), sums[1] / (gold != PAD).sum()


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_objectives_are_added_by_their_weights_and_logged_apart(
    network: Network, batch: Draw, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoothing, model, rows = 0.1, network(decoder), batch()
    made = dialog.DialogModule(
        model,
        padding=PAD,
        loss={"name": "cross_entropy", "label_smoothing": smoothing},
        objectives=[
            {"name": "denoising", "weight": 0.5, "schedule": {"name": "linear", "steps": 4}},
            {"name": "reverse", "weight": 2},
            {"name": "denoising", "deletion": 0.0, "masking": 0.0, "distance": 0},
        ],
    )
    monkeypatch.setattr(dialog.DialogModule, "global_step", 1)
    torch.manual_seed(2)
    found = made.training_step(rows, 0)
    logged = logs(made)
    torch.manual_seed(2)
    tasks = [
        (rows.source, rows.target),
        Denoising()(rows),
        Reverse()(rows),
        Denoising(deletion=0, masking=0, distance=0)(rows),
    ]
    expected = [mean_loss(model, *each, smoothing) for each in tasks]
    shares = [int((target[:, 1:] != PAD).sum()) / rows.target_tokens for _, target in tasks]
    weights = (1.0, 0.5 * 0.75, 2.0, 1.0)
    whole = sum(weight * share * each[0] for weight, share, each in zip(weights, shares, expected, strict=True))
    assert isinstance(whole, Tensor)
    names = ["train/loss", "train/denoising", "train/reverse", "train/denoising_2"]
    assert set(logged) == {*names, "train/objective"}
    for name, (_, nll) in zip(names, expected, strict=True):
        torch.testing.assert_close(logged[name], nll.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(logged["train/objective"], found.detach(), rtol=0, atol=0)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-12)
    leaves = list(model.parameters())
    slopes = [torch.autograd.grad(each, leaves, allow_unused=True) for each in (found, whole)]
    torch.testing.assert_close(*([each for each in slope if each is not None] for slope in slopes), rtol=0, atol=1e-12)
    assert made.target_tokens == rows.target_tokens


def test_where_there_is_nothing_to_learn_there_is_no_loss(network: Network) -> None:
    rows = collate([([EOS], [BOS, 9, EOS])] * 2, range(2))
    made = dialog.DialogModule(network(), padding=PAD, objectives=[{"name": "reverse"}])
    made.training_step(rows, 0).backward()
    logged = logs(made)
    assert logged["train/reverse"] == 0
    assert logged["train/objective"] == logged["train/loss"]
    assert all(each.grad is None or each.grad.isfinite().all() for each in made.model.parameters())


@pytest.mark.parametrize("loss", ["cross_entropy", "r_drop"])
@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_coverage_is_added_by_the_heads_weight_and_logged_apart(
    network: Network, batch: Draw, decoder: str, loss: str
) -> None:
    model, rows = network(decoder, head={"name": "pointer_generator", "coverage": 0.7}), batch()
    made = dialog.DialogModule(model, padding=PAD, loss={"name": loss})
    found = made.training_step(rows, 0)
    logged = logs(made)
    memory, state = model.start(rows.source, rows.source != PAD)
    decoded, _ = model.decode(rows.target[:, :-1], memory, state)
    real = rows.target[:, 1:] != PAD
    coverage = coverage_loss(decoded.weights, real) / rows.target_tokens
    assert coverage > 0.01
    torch.testing.assert_close(logged["train/coverage"], coverage.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(found, mean_loss(model, rows.source, rows.target, 0.0)[0] + 0.7 * coverage)
    gate = model.head.measures(decoded[real.nonzero(as_tuple=True)])["generation_probability"]
    torch.testing.assert_close(logged["train/generation_probability"], gate.detach(), rtol=0, atol=1e-12)


# ------------------------------------------------------------------ in a run

JOINT = (
    "model.objectives=[{name: denoising, weight: 0.5}, {name: reverse, weight: 0.1}]",
    "model.teacher_forcing={name: linear, steps: 10, end: 0.5}",
    "model.loss={name: r_drop, loss: {name: unlikelihood}}",
    "model.head={name: pointer_generator, coverage: 1.0}",
)


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_a_run_of_all_of_it(tiny: Callable[..., Any], tmp_path: Path, family: str) -> None:
    import json

    settings = ["trainer.max_steps=4", "trainer.val_check_interval=4", "trainer.log_every_n_steps=1"]
    train(tiny(family, *JOINT, *settings), tmp_path / family, quiet=True)
    lines = [json.loads(line) for line in (tmp_path / family / "metrics.jsonl").read_text("utf-8").splitlines()]
    names = ("loss", "objective", "denoising", "reverse", "coverage", "generation_probability", "teacher_forcing")
    steps = [line for line in lines if "train/loss" in line]
    assert len(steps) == 4
    assert all(line[f"train/{name}"] > 0 for line in steps for name in names)
    assert [line["train/teacher_forcing"] for line in steps] == pytest.approx([1.0, 0.95, 0.9, 0.85])
    assert all(line["train/objective"] > line["train/loss"] for line in steps)
    assert [line for line in lines if "validation/loss" in line]
    run = dialog.load(tmp_path / family)
    assert run.recipe.model.objectives[0] == {"name": "denoising", "weight": 0.5}
    assert run.respond(["Hello."]).text is not None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.objectives=[{name: denoising, path: gone.txt}]", r"model: denoising: there is no text gone\.txt"),
        ("model.objectives=[{name: translation}]", "model: unknown objective 'translation'"),
        ("model.teacher_forcing={name: linear}", "model: linear: missing required argument: steps"),
        ("model.teacher_forcing={name: constant, sampled: often}", "sampled must be bool"),
    ],
)
def test_what_cannot_be_taught_leaves_nothing(
    tiny: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, message: str
) -> None:
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=message):
        train(tiny("transformer", override), tmp_path / "run", quiet=True)
    assert not list(tmp_path.iterdir())


def test_a_text_reaches_the_run(tiny: Callable[..., Any], tmp_path: Path, text: Path) -> None:
    settings = [f"model.objectives=[{{name: denoising, path: {text}}}]", "trainer.max_steps=2"]
    check_recipe(tiny("transformer", *settings).recipe)
    train(tiny("transformer", *settings, "trainer.val_check_interval=2"), tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "model.safetensors").is_file()
