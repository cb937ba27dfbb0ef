"""Errors are one line on standard error with exit code 2, and change no file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from program import TRANSFORMER, Done, files, process, series

pytestmark = pytest.mark.usefixtures("here")


LIGHT_ERRORS = [
    (["trian", TRANSFORMER], "unknown command 'trian'; did you mean 'train'?"),
    (["show"], "Missing argument 'RECIPE'"),
    (["export", "RUN"], "Missing option '--format'. Choose from: huggingface, ctranslate2, onnx"),
    (["show", TRANSFORMER, "--modle"], "No such option '--modle'. Did you mean"),
    (
        ["train", TRANSFORMER, "--seed", "3"],
        "No such option '--seed'; settings are written KEY=VALUE: seed=...",
    ),
    (
        ["train", TRANSFORMER, "--max-epochs=3"],
        "No such option '--max-epochs'; settings are written KEY=VALUE: trainer.max_epochs=...",
    ),
    (
        ["evaluate", "RUN", "--learning-rate", "1"],
        "No such option '--learning-rate'; settings are written KEY=VALUE, such as tr",
    ),
    (
        ["show", "quickstart/transfomer"],
        "unknown recipe 'quickstart/transfomer'; did you mean 'quickstart/tr",
    ),
    (["show", "bad.yaml"], "bad.yaml:2: "),
    (
        ["train", "my chats.csv.gz"],
        "my chats.csv.gz is a data file, not a recipe; write a recipe for it: python -m dialog start 'my",
    ),
    (["compare", TRANSFORMER, "folder/chats.csv"], "folder/chats.csv is a data file, not a recipe"),
    (
        ["train", TRANSFORMER, "model.drop_out=1"],
        "command line: model.drop_out: unknown key; did you mean 'dropout'?",
    ),
    (["train", TRANSFORMER, "model"], "override 'model' must be key=value or ~key"),
    (["train", TRANSFORMER, "--output", "folder"], "folder exists; choose another --output"),
    (
        ["prepare", TRANSFORMER, "data=bultin"],
        "command line: unknown data 'bultin'; did you mean 'builtin'?",
    ),
    (
        ["prepare", "dailydialog/transformer"],
        (
            "data.corpus: dailydialog is missing and DIALOG_OFFLINE forbids downloading it; get it"
            " from http"
        ),
    ),
    (["prepare", TRANSFORMER, "--shard", "2/2"], "Invalid value for '--shard': 2/2 must be I/N"),
    (
        ["prepare", TRANSFORMER, "--shard", "0/2", "--merge"],
        "--shard prepares one shard, --merge merges all",
    ),
    (
        ["prepare", TRANSFORMER, "--shard", "0/2", "--workers", "2"],
        "--shard and --merge run in one process",
    ),
    (["prepare", TRANSFORMER, "--shard", "0/2", "--json"], "--json: not with --shard"),
    (["train", TRANSFORMER, "--trust"], "--trust: only with --resume RUN"),
    (["train", TRANSFORMER, "--kills", "2"], "--kills: only with --prove-resume"),
    (
        ["train", TRANSFORMER, "--prove-resume", "--output", "new"],
        "--output: not with --prove-resume",
    ),
    (["train", "--resume", "folder", "--prove-resume"], "--resume: not with --prove-resume"),
    (
        ["tune", TRANSFORMER, "--batch-tokens", "data.batch_examples=8"],
        "--batch-tokens: data.batch_examples sets the batches; add data.batch_examples=null",
    ),
    (["tune", TRANSFORMER, "--lr", "--most", "512"], "--most: only with --batch-tokens"),
    (["tune", TRANSFORMER, "--batch-tokens", "--steps", "20"], "--steps: only with --lr"),
    (
        ["compare", "folder", "--ratings", "bad.yaml", "--strict"],
        "--ratings: needs a finished comparison folder and",
    ),
    (["compare", "folder", "--paper", "."], ". exists; choose another --paper"),
    (
        ["compare", "folder", "--paper", "new", "--ratings", "a.json"],
        "--ratings: needs a finished comparison folder and",
    ),
    (["evaluate", "folder"], "folder is not a run folder: it has no recipe.yaml"),
    (["respond", "nowhere"], "nowhere is not a run folder: it has no recipe.yaml"),
    (["compare", TRANSFORMER], "compare needs at least two contenders: recipes, run folders"),
    (
        ["compare", TRANSFORMER, TRANSFORMER],
        f"{TRANSFORMER}: listed twice; list each contender once",
    ),
]


def test_wrong_commands_are_one_line_and_change_nothing(here: Path) -> None:
    before = files(here)
    for (arguments, message), done in zip(
        LIGHT_ERRORS, series([arguments for arguments, _ in LIGHT_ERRORS]), strict=True
    ):
        assert (done.code, done.out) == (2, ""), arguments
        assert done.err.startswith(f"dialog: {message}"), done.err
        assert done.err.count("\n") == 1, done.err
        assert "torch" not in done.loaded, f"{arguments} could be rejected before torch is imported"
    assert files(here) == before


ERRORS = [
    (
        ["evaluate", "folder", "--split", "tset"],
        "'tset' is not one of 'train', 'validation', 'test'",
    ),
    (["respond", "folder", "--output", "bad.yaml"], "bad.yaml exists; choose another --output"),
    *(
        (
            [*verb, "--output", "missing/a.html"],
            "missing/a.html: cannot be written (No such file or directory); choose",
        )
        for verb in (
            ["respond", "folder"],
            ["score", "folder"],
            ["attention", "folder", "--context", "Hi ."],
        )
    ),
    (
        ["compare", TRANSFORMER, "quickstart/lstm_bahdanau", "--output", "folder"],
        "folder exists and is not a comparison folder (no grid.json); choose another --output",
    ),
    (["compare", TRANSFORMER, "quickstart/lstm_bahdanau", "seeds"], "unknown recipe 'seeds'"),
    (["compare", TRANSFORMER, "folder"], "folder is not a run folder"),
    (
        ["compare", TRANSFORMER, "same.yaml"],
        "model: unknown encoder 'transfomer'; did you mean 'transformer'?",
    ),
    (["compare", TRANSFORMER, "quickstart/lstm_bahdanau", "--seeds", "0"], "0 is not in the range"),
    (["parts", "attention"], "unknown family 'attention'; did you mean 'attentions'?"),
    (["parts", "encoders", "lstmm"], "unknown encoder 'lstmm'; did you mean 'lstm'?"),
    (
        ["prepare", TRANSFORMER, "data.corpus.name=buitlin"],
        "data.corpus: unknown corpus 'buitlin'; did you mean 'builtin'?",
    ),
    (
        ["prepare", TRANSFORMER, "data.corpus.sizes=3"],
        "builtin: unknown argument 'sizes'; did you mean 'size'?",
    ),
    (["prepare", TRANSFORMER, "data.corpus.size=0"], "size is 0"),
    (
        ["prepare", TRANSFORMER, "data.tokenizer.name=byte"],
        "data.tokenizer: unknown tokenizer 'byte'",
    ),
    (["prepare", TRANSFORMER, "data.max_source=0"], "data.max_source is 0"),
    (
        ["prepare", TRANSFORMER, "data.corpus={name: jsonl}"],
        "data.corpus: jsonl needs a folder with train.jsonl",
    ),
    (["prepare", TRANSFORMER, "data.corpus={name: jsonl}", "data.path=gone"], "gone"),
    (
        ["prepare", "dailydialog/transformer", "data.path=folder"],
        "folder/train/dialogues_train.txt does not exist",
    ),
    (
        ["train", TRANSFORMER, "data.batch_tokens=0"],
        "command line: data.batch_tokens: must be at least 1, not 0",
    ),
    (
        ["train", TRANSFORMER, "model.encoder.name=transfomer"],
        "model: unknown encoder 'transfomer'; did you mean",
    ),
    (
        ["train", TRANSFORMER, "model.encoder.layer=2"],
        "transformer: unknown argument 'layer'; did you mean 'layers'?",
    ),
    (
        ["train", TRANSFORMER, "model.encoder.layers=two"],
        "model.encoder.layers: transformer: layers must be int, not 'two'",
    ),
    (
        ["train", TRANSFORMER, "optimizer.lr=high"],
        "optimizer.lr: adamw: lr must be float, not 'high'",
    ),
    (
        ["train", TRANSFORMER, "optimizer.schedule.warmup_steps=x"],
        "optimizer.schedule.warmup_steps: ",
    ),
    (
        ["train", "quickstart/lstm_bahdanau", "model.decoder.attention.size=x"],
        "model.decoder.attention.size: ",
    ),
    (
        ["inspect", TRANSFORMER, "data.filters=[{name: length}, {name: length, mni: 3}]"],
        "data.filters[1].mni: ",
    ),
    (
        ["train", TRANSFORMER, "model.encoder.layers=0"],
        "model: transformer: layers must be at least 1, not 0",
    ),
    (["train", TRANSFORMER, "model.encoder.heads=3"], "model: transformer: "),
    (
        [
            "train",
            "quickstart/lstm_bahdanau",
            (
                "model.decoder.attention={name: torch.nn.Bilinear, in1_features: 4, in2_features:"
                " 4, out_features: 1}"
            ),
        ],
        "Bilinear: no method keys(states)",
    ),
    (["train", TRANSFORMER, "model.embedding_size=-1"], "model: "),
    (
        ["train", TRANSFORMER, "model.loss.name=cross"],
        "model: unknown loss 'cross'; did you mean 'cross_entropy'?",
    ),
    (
        ["train", TRANSFORMER, "optimizer.name=adamx"],
        "optimizer: unknown optimizer 'adamx'; did you mean 'adam",
    ),
    (["train", TRANSFORMER, "optimizer.lr=-1"], "optimizer: adamw: "),
    (
        ["train", TRANSFORMER, "optimizer.schedule.name=stairs"],
        "optimizer: unknown schedule 'stairs'; choose from ",
    ),
    (
        ["train", TRANSFORMER, "generation.search.name=gredy"],
        "generation: unknown search 'gredy'; did you mean 'greedy'?",
    ),
    (["train", TRANSFORMER, "generation.min_length=99"], "generation: greedy: "),
    (
        ["train", TRANSFORMER, "logger.name=wandbb"],
        "logger: unknown logger 'wandbb'; did you mean 'wandb'?",
    ),
    (["train", TRANSFORMER, "trainer.precision=31"], "trainer.precision: unknown precision '31'; "),
    (
        ["train", TRANSFORMER, "trainer.precision=bf16-mix"],
        "unknown precision 'bf16-mix'; did you mean 'bf16-mixed'?",
    ),
    (
        ["train", TRANSFORMER, "trainer.precision=16-true"],
        "vanish in 16-true; use 16-mixed or bf16-true",
    ),
    (["train", TRANSFORMER, "trainer.accelerator=abacus"], "trainer: "),
    (["train", TRANSFORMER, "trainer.strategy=zeal"], "trainer: "),
    (["train", TRANSFORMER, "trainer.max_time=soon"], "trainer: "),
    (["train", TRANSFORMER, "seed=-1"], "seed: "),
    (
        ["train", "dailydialog/transformer"],
        (
            "data.corpus: dailydialog is missing and DIALOG_OFFLINE forbids downloading it; get it"
            " from http"
        ),
    ),
]


@pytest.mark.parametrize(
    ("arguments", "message"), ERRORS, ids=[" ".join(arguments) for arguments, _ in ERRORS]
)
def test_wrong_recipe_is_one_line_and_changes_nothing(
    here: Path, call: Callable[..., Done], arguments: list[str], message: str
) -> None:
    before = files(here)
    done = call(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("dialog: ")
    assert done.err.count("\n") == 1
    assert message in done.err
    assert "Traceback" not in done.err
    assert files(here) == {**before, **speed_of_this_machine(here)}


def speed_of_this_machine(here: Path) -> dict[str, bytes | None]:
    """Return the file that keeps what `precision: auto` has measured, if there is one."""
    return {
        name: content for name, content in files(here).items() if name == "cache/matmul-speed.json"
    }


def test_number_of_processes_must_match_torchrun(
    here: Path, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = call("train", TRANSFORMER)
    assert done.code == 2
    assert done.err.startswith(
        "dialog: trainer: torchrun started 2 processes, devices x num_nodes is 1;"
    )
    assert not (here / "runs").exists()


def test_compare_rejects_torchrun(
    here: Path, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = call("compare", "quickstart/lstm_bahdanau", TRANSFORMER, "--output", "out")
    assert done.code == 2
    assert done.err.startswith(
        "dialog: compare runs in one process, but torchrun started 2; train with torchrun, then"
    )
    assert not (here / "out").exists()


def test_compare_rejects_several_devices(here: Path, call: Callable[..., Done]) -> None:
    done = call(
        "compare", "quickstart/lstm_bahdanau", TRANSFORMER, "trainer.devices=2", "--output", "out"
    )
    assert done.code == 2
    assert "compare trains in one process" in done.err.splitlines()[-1]
    assert not (here / "out").exists()


def test_rejected_run_leaves_no_folder(here: Path, call: Callable[..., Done]) -> None:
    done = call(
        "train",
        TRANSFORMER,
        "data.corpus.size=20",
        "trainer.check_val_every_n_epoch=1",
        "logger=wandb",
    )
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("dialog: trainer: ")
    assert "`val_check_interval` (460) must be less than or equal to" in done.err
    assert not [path for path in (here / "runs").rglob("*") if path.is_file()]


def test_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., Done]
) -> None:
    monkeypatch.setenv("DIALOG_DEBUG", "1")
    done = call("show", "nowhere.yaml")
    assert done.code == 2
    assert done.err.startswith("Traceback")
    assert done.err.endswith("dialog: recipe file nowhere.yaml does not exist\n")


class PanicException(BaseException):
    """Named like the panic of a library in Rust."""


@pytest.mark.parametrize("error", [KeyError("a\nb"), PanicException("a\nb")])
def test_internal_failure_is_one_line_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., Done], error: BaseException
) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr("dialog.config.compose.find_recipe", fail)
    done = call("show", TRANSFORMER)
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith(f"dialog: internal failure: {type(error).__name__}: ")
    assert done.err.count("\n") == 1


def test_messages_escape_control_characters() -> None:
    done = process("show", "\x1b[2Jx\nwrong")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert done.err.count("\n") == 1
