"""The command line, as real processes where that matters: start-up, exit codes, and one line for what one can mend."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dialog.cli import VERBS, main

HEAVY = ("torch", "lightning", "numpy", "wandb")
CHILD = """
import sys
from dialog.cli import main
try:
    main()
finally:
    print("loaded:", *[name for name in %r if name in sys.modules], file=sys.stderr)
"""
GOOD = b'{"turns": ["Hi", "Hello"]}\n'
TINY = [
    *("data.corpus.size=50", "data.tokenizer.vocabulary=400", "model.embedding_size=8"),
    *(
        f"model.{side}.{each}"
        for side in ("encoder", "decoder")
        for each in ("heads=2", "layers=1", "feed_forward_size=8")
    ),
]
TRANSFORMER = "quickstart/transformer"


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, with inputs that are broken in one way each."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("DIALOG_CACHE", str(cache))
    monkeypatch.setenv("DIALOG_OFFLINE", "1")
    monkeypatch.delenv("DIALOG_DATA", raising=False)
    monkeypatch.delenv("DIALOG_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "note.txt").write_text("mine")
    (tmp_path / "bad.yaml").write_text("defaults: {data: builtin}\nmodel: {encoder: [}\n")
    (tmp_path / "same.yaml").write_text(
        "defaults: {data: builtin, model: transformer, optimizer: adamw_inverse_sqrt}\n"
        "model: {encoder: {name: transfomer}, dropout: 0.0}\n"
    )
    for name, train in {
        "json": GOOD + b'{"turns": ["Hi", \n',
        "empty_file": b"",
        "not_utf8": GOOD + GOOD + b'{"turns": ["H\xff", "x"]}\n',
        "fine": GOOD * 3,
    }.items():
        (tmp_path / name).mkdir()
        for split in ("train", "validation", "test"):
            (tmp_path / name / f"{split}.jsonl").write_bytes(train if split == "train" else GOOD)
    return tmp_path


def process(*arguments: str, start: tuple[str, ...] = ("-m", "dialog"), stdin: str = "") -> Done:
    """A real process."""
    done = subprocess.run(
        [sys.executable, *start, *arguments], input=stdin, capture_output=True, text=True, encoding="utf-8", timeout=120
    )
    return Done(done.returncode, done.stdout, done.stderr)


def watched(*arguments: str) -> tuple[Done, set[str]]:
    """A real process that says at its end which heavy packages it has loaded."""
    done = process(*arguments, start=("-c", CHILD % (HEAVY,)))
    *lines, last = done.err.rstrip("\n").split("\n")
    assert last.startswith("loaded:")
    return done._replace(err="".join(f"{line}\n" for line in lines)), set(last.split()[1:])


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The same program in this process, for what needs torch."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["dialog", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return run


def files(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
    }


# ------------------------------------------------------------------ help


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_shows_an_example_and_loads_nothing_heavy(verb: str) -> None:
    done, loaded = watched(*verb.split(), "--help")
    assert done.code == 0
    assert done.err == ""
    assert done.out.startswith("Usage: ")
    assert f"Example: dialog-seq2seq {verb}" in " ".join(done.out.replace("echo '{", "dialog-seq2seq respond").split())
    assert loaded == set()


def test_help_lists_every_verb_and_is_what_no_verb_shows() -> None:
    done = process("--help")
    assert [verb for verb in VERBS if f"\n  {verb} " not in done.out] == []
    assert process() == done
    assert process("-h") == done


def test_help_is_quick() -> None:
    used = []
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-m", "dialog", "--help"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        used.append(usage.ru_utime + usage.ru_stime)
    assert min(used) < 0.3


def test_the_version() -> None:
    import dialog

    assert process("--version").out == f"dialog-seq2seq, version {dialog.__version__}\n"


def test_the_installed_program_is_the_same() -> None:
    script = Path(sys.executable).parent / "dialog-seq2seq"
    if not script.exists():
        pytest.skip("dialog is not installed with its script")
    done = subprocess.run([script, "show", "x", "y"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("dialog: unknown recipe 'x'; choose from ")


# ------------------------------------------------------------------ what needs no torch


def test_recipes_lists_them() -> None:
    done, loaded = watched("recipes")
    assert (done.code, done.err, loaded) == (0, "", set())
    assert f"\n{TRANSFORMER} " in done.out
    rows = json.loads(process("recipes", "--json").out)
    assert {row["name"]: row["decoder"] for row in rows}[TRANSFORMER] == "transformer"


def test_show_says_where_each_value_comes_from() -> None:
    done, loaded = watched("show", TRANSFORMER, "seed=5")
    assert (done.code, done.err, loaded) == (0, "", set())
    lines = dict(line.split("  # ") for line in done.out.rstrip("\n").split("\n"))
    places = {key.split(": ")[0]: (key.split(": ")[1].strip(), place) for key, place in lines.items()}
    assert places["seed"] == ("5", "command line")
    assert places["num_nodes" if "num_nodes" in places else "trainer.num_nodes"][1] == "default"
    assert re.search(r"configs/data/builtin.yaml:\d+$", places["data.corpus.name"][1])
    assert "recipes/quickstart/transformer.yaml:" in places["trainer.max_epochs"][1]


def test_show_as_json_is_the_recipe() -> None:
    from dialog.config.compose import compose
    from dialog.config.schema import to_dict

    done, loaded = watched("show", TRANSFORMER, "--json", "optimizer.lr=1e-2")
    assert (done.code, done.err, loaded) == (0, "", set())
    assert json.loads(done.out) == to_dict(compose(TRANSFORMER, ["optimizer.lr=1e-2"]).recipe)


def test_prepare_needs_no_torch_and_does_its_work_once() -> None:
    arguments = ("prepare", TRANSFORMER, "data.corpus={name: jsonl}", "data.path=fine", "--json")
    done, loaded = watched(*arguments)
    assert done.code == 0
    assert "torch" not in loaded
    manifest = json.loads(done.out)
    assert manifest["splits"]["train"]["examples"] == 3
    assert all(each["number"] > 0 and 0 <= each["padding"] < 1 for each in manifest["batches"].values())
    before = files(Path("cache"))
    assert json.loads(process(*arguments).out) == manifest
    assert files(Path("cache")) == before


# ------------------------------------------------------------------ what the user can mend

REAL = [
    (["trian", TRANSFORMER], "unknown verb 'trian'; did you mean 'train'?"),
    (["show"], "Missing argument 'RECIPE'"),
    (["show", TRANSFORMER, "--modle"], "No such option '--modle'"),
    (["show", "quickstart/transfomer"], "unknown recipe 'quickstart/transfomer'; did you mean 'quickstart/tr"),
    (["show", "bad.yaml"], "bad.yaml:2: "),
    (
        ["train", TRANSFORMER, "model.drop_out=1"],
        "command line: model.drop_out: unknown key; did you mean 'dropout'?",
    ),
    (["train", TRANSFORMER, "model"], "override 'model' must be key=value or ~key"),
    (["train", TRANSFORMER, "--output", "folder"], "folder exists; choose another --output"),
    (["prepare", TRANSFORMER, "data=bultin"], "command line: unknown data 'bultin'; did you mean 'builtin'?"),
    (
        ["prepare", "dailydialog/transformer"],
        "data.corpus: dailydialog is missing and DIALOG_OFFLINE forbids downloading it; get it from http",
    ),
    (["prepare", TRANSFORMER, "--shard", "2/2"], "Invalid value for '--shard': 2/2 must be I/N"),
    (
        ["prepare", TRANSFORMER, "--shard", "0/2", "--merge"],
        "--shard prepares one shard, --merge merges all",
    ),
    (["prepare", TRANSFORMER, "--shard", "0/2", "--workers", "2"], "--shard and --merge run in one process"),
    (["evaluate", "folder"], "folder is not a run folder: it has no recipe.yaml"),
    (["respond", "nowhere"], "nowhere is not a run folder: it has no recipe.yaml"),
    (["compare", TRANSFORMER], "compare needs at least two recipes or run folders"),
    (["compare", TRANSFORMER, TRANSFORMER], f"{TRANSFORMER}: listed twice; list each recipe once"),
]


@pytest.mark.parametrize(("arguments", "message"), REAL, ids=[" ".join(arguments) for arguments, _ in REAL])
def test_a_wrong_command_is_one_line_and_changes_nothing(here: Path, arguments: list[str], message: str) -> None:
    before = files(here)
    done, loaded = watched(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"dialog: {message}")
    assert done.err.count("\n") == 1
    assert files(here) == before
    assert "torch" not in loaded, "it could be refused sooner"


INSIDE = [
    (["evaluate", "folder", "--split", "tset"], "'tset' is not one of 'train', 'validation', 'test'"),
    (["respond", "folder", "--output", "bad.yaml"], "bad.yaml exists; choose another --output"),
    (
        ["compare", TRANSFORMER, "quickstart/lstm_bahdanau", "--output", "folder"],
        "folder exists; choose another --output",
    ),
    (["compare", TRANSFORMER, "quickstart/lstm_bahdanau", "seeds"], "unknown recipe 'seeds'"),
    (["compare", TRANSFORMER, "folder"], "folder is not a run folder"),
    (["compare", TRANSFORMER, "same.yaml"], "model: unknown encoder 'transfomer'; did you mean 'transformer'?"),
    (["compare", TRANSFORMER, "quickstart/lstm_bahdanau", "--seeds", "0"], "0 is not in the range"),
    (["parts", "attention"], "unknown family 'attention'; did you mean 'attentions'?"),
    (
        ["prepare", TRANSFORMER, "data.corpus.name=buitlin"],
        "data.corpus: unknown corpus 'buitlin'; did you mean 'builtin'?",
    ),
    (["prepare", TRANSFORMER, "data.corpus.sizes=3"], "builtin: unknown argument 'sizes'; did you mean 'size'?"),
    (["prepare", TRANSFORMER, "data.corpus.size=0"], "size is 0"),
    (["prepare", TRANSFORMER, "data.tokenizer.name=byte"], "data.tokenizer: unknown tokenizer 'byte'"),
    (["prepare", TRANSFORMER, "data.max_source=0"], "data.max_source is 0"),
    (["prepare", TRANSFORMER, "data.corpus={name: jsonl}"], "data.corpus: jsonl needs a folder with train.jsonl"),
    (["prepare", TRANSFORMER, "data.corpus={name: jsonl}", "data.path=gone"], "gone"),
    (["prepare", "dailydialog/transformer", "data.path=folder"], "folder/train/dialogues_train.txt does not exist"),
    (["train", TRANSFORMER, "data.batch_tokens=0"], "command line: data.batch_tokens: must be at least 1, not 0"),
    (["train", TRANSFORMER, "model.encoder.name=transfomer"], "model: unknown encoder 'transfomer'; did you mean"),
    (["train", TRANSFORMER, "model.encoder.layer=2"], "transformer: unknown argument 'layer'; did you mean 'layers'?"),
    (["train", TRANSFORMER, "model.encoder.layers=two"], "model: transformer: layers must be int, not 'two'"),
    (["train", TRANSFORMER, "model.encoder.layers=0"], "model: transformer: layers must be at least 1, not 0"),
    (["train", TRANSFORMER, "model.encoder.heads=3"], "model: transformer: "),
    (
        [
            "train",
            "quickstart/lstm_bahdanau",
            "model.decoder.attention={name: torch.nn.Bilinear, in1_features: 4, in2_features: 4, out_features: 1}",
        ],
        "Bilinear has no keys(states)",
    ),
    (["train", TRANSFORMER, "model.embedding_size=-1"], "model: "),
    (["train", TRANSFORMER, "model.loss.name=cross"], "model: unknown loss 'cross'; choose from cross_entropy"),
    (["train", TRANSFORMER, "optimizer.name=adamx"], "optimizer: unknown optimizer 'adamx'; did you mean 'adam"),
    (["train", TRANSFORMER, "optimizer.lr=-1"], "optimizer: adamw: "),
    (["train", TRANSFORMER, "optimizer.schedule.name=stairs"], "optimizer: unknown schedule 'stairs'; choose from "),
    (
        ["train", TRANSFORMER, "generation.search.name=gredy"],
        "generation: unknown search 'gredy'; did you mean 'greedy'?",
    ),
    (["train", TRANSFORMER, "generation.min_length=99"], "generation: greedy: "),
    (["train", TRANSFORMER, "logger.name=wandbb"], "logger: unknown logger 'wandbb'; did you mean 'wandb'?"),
    (["train", TRANSFORMER, "trainer.precision=31"], "trainer.precision: unknown precision '31'; "),
    (["train", TRANSFORMER, "trainer.precision=bf16-mix"], "unknown precision 'bf16-mix'; did you mean 'bf16-mixed'?"),
    (["train", TRANSFORMER, "trainer.precision=16-true"], "vanish in 16-true; take 16-mixed or bf16-true"),
    (["train", TRANSFORMER, "trainer.accelerator=abacus"], "trainer: "),
    (["train", TRANSFORMER, "trainer.strategy=zeal"], "trainer: "),
    (["train", TRANSFORMER, "trainer.max_time=soon"], "trainer: "),
    (["train", TRANSFORMER, "seed=-1"], "seed: "),
    (
        ["train", "dailydialog/transformer"],
        "data.corpus: dailydialog is missing and DIALOG_OFFLINE forbids downloading it; get it from http",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), INSIDE, ids=[" ".join(arguments) for arguments, _ in INSIDE])
def test_a_wrong_recipe_is_one_line_and_changes_nothing(
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
    assert files(here) == before


@pytest.mark.parametrize("output", [[], ["--output", "mine"]], ids=["runs", "own"])
def test_two_processes_train_into_one_folder(here: Path, output: list[str]) -> None:
    sizes = ["data.corpus.size=60", "trainer.max_steps=4", "trainer.val_check_interval=2"]
    done = process("train", TRANSFORMER, *sizes, "trainer.devices=2", "trainer.log_every_n_steps=1", *output)
    assert done.code == 0, done.err
    (folder,) = done.out.splitlines()
    made = [path.parent.relative_to(here).as_posix() for path in here.rglob("recipe.yaml")]
    assert made == [folder]
    assert (here / folder / "model.safetensors").is_file()
    lines = [json.loads(line) for line in (here / folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines if "train/loss" in line] == [0, 1, 2, 3]
    summary = json.loads((here / folder / "summary.json").read_text(encoding="utf-8"))
    tokens = [line["train/tokens"] for line in lines if "train/tokens" in line]
    assert tokens[-1] == summary["target_tokens"]
    assert "sync_dist" not in done.err


def test_torchrun_and_the_recipe_agree_on_the_processes(
    here: Path, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = call("train", TRANSFORMER)
    assert done.code == 2
    assert done.err.startswith("dialog: trainer: torchrun started 2 processes, devices x num_nodes is 1;")
    assert not (here / "runs").exists()


def test_compare_is_started_once(here: Path, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = call("compare", "quickstart/lstm_bahdanau", TRANSFORMER, "--output", "out")
    assert done.code == 2
    assert done.err.startswith("dialog: compare runs in one process, but torchrun started 2; train with torchrun, then")
    assert not (here / "out").exists()


def test_a_diverged_run_is_no_success(here: Path) -> None:
    sizes = ["data.corpus.size=60", "trainer.max_steps=4", "trainer.val_check_interval=2"]
    wild = ["optimizer.lr=1e30", "trainer.gradient_clip_val=null"]
    done = process("train", TRANSFORMER, *sizes, *wild, "--output", "out")
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("dialog: step 2: loss nan, ")
    assert re.search(r"training examples \(dialogue#turn\): train-\d+#\d+, ", last)
    assert not (here / "out" / "model.safetensors").exists()


def test_show_commands_no_terminal(call: Callable[..., Done]) -> None:
    done = call("show", TRANSFORMER, "about.summary='a\u202eb'")
    assert done.code == 0
    assert "a\\u202eb" in done.out
    assert "\u202e" not in done.out


def test_a_comparison_trains_in_one_process(here: Path, call: Callable[..., Done]) -> None:
    done = call("compare", "quickstart/lstm_bahdanau", TRANSFORMER, "trainer.devices=2", "--output", "out")
    assert done.code == 2
    assert "compare trains in one process" in done.err.splitlines()[-1]
    assert not (here / "out").exists()


def test_a_run_that_is_refused_before_its_first_step_leaves_no_folder(here: Path, call: Callable[..., Done]) -> None:
    done = call("train", TRANSFORMER, "data.corpus.size=20", "trainer.check_val_every_n_epoch=1", "logger=wandb")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith("dialog: trainer: ")
    assert "`val_check_interval` (460) must be less than or equal to" in done.err
    assert not [path for path in (here / "runs").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ("json", "json/train.jsonl:2: not JSON"),
        ("empty_file", "empty_file/train.jsonl is empty"),
        ("not_utf8", "not_utf8/train.jsonl:3: byte "),
    ],
)
def test_broken_dialogues_are_refused_with_their_line(here: Path, corpus: str, message: str) -> None:
    before = files(here)
    done = process("prepare", TRANSFORMER, "data.corpus={name: jsonl}", f"data.path={corpus}")
    assert done.code == 2
    assert done.out == ""
    *progress, last = done.err.rstrip("\n").split("\n")
    assert set(progress) <= {"learning the tokenizer"}
    assert last.startswith(f"dialog: {message}")
    assert files(here) == before


def test_debugging_shows_where(monkeypatch: pytest.MonkeyPatch, call: Callable[..., Done]) -> None:
    monkeypatch.setenv("DIALOG_DEBUG", "1")
    done = call("show", "nowhere.yaml")
    assert done.code == 2
    assert done.err.startswith("Traceback")
    assert done.err.endswith("dialog: recipe file nowhere.yaml does not exist\n")


def test_a_failure_of_ours_is_one_line_and_exits_1(monkeypatch: pytest.MonkeyPatch, call: Callable[..., Done]) -> None:
    monkeypatch.setattr("dialog.config.compose.find_recipe", lambda name: {}["a\nb"])
    done = call("show", TRANSFORMER)
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("dialog: internal failure: KeyError: ")
    assert done.err.count("\n") == 1


def test_a_message_cannot_command_the_terminal() -> None:
    done = process("show", "\x1b[2Jx\nwrong")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert done.err.count("\n") == 1


# ------------------------------------------------------------------ what it prints


def test_parts_lists_arguments_and_defaults(call: Callable[..., Done]) -> None:
    done = call("parts", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["attentions"]["additive"] == {"size": "required"}
    assert found["corpora"]["taskmaster"] == {"files": None}
    assert {"encoders", "decoders", "searches", "metrics", "loggers", "schedules"} <= set(found)
    assert found["losses"]["r_drop"] == {"loss": {"name": "cross_entropy"}, "weight": 0.5}
    assert found["teacher_forcings"]["linear"] == {"steps": "required", "start": 1.0, "end": 0.0}
    assert found["objectives"]["denoising"]["path"] is None
    given = {"path", "tokenizer", "padding", "vocabulary", "tied", "end", "kwargs"}
    assert {
        key
        for family in ("corpora", "heads", "attentions", "losses", "searches", "objectives")
        for part in found[family].values()
        for key in part
    } & given == {"path"}
    shown = call("parts", "attentions").out
    assert "  additive(size)\n" in shown
    assert "encoders" not in shown


def test_show_prints_examples_and_modules(call: Callable[..., Done]) -> None:
    done = call("show", TRANSFORMER, *TINY, "--examples", "2", "--model")
    assert done.code == 0
    lines = done.out.rstrip("\n").split("\n")
    assert [line.split(":")[0] for line in lines[-4:]] == ["0 source", "0 target", "1 source", "1 target"]
    assert all(line.endswith("</s>") for line in lines[-4:])
    assert "0 target: <s> " in done.out
    modules = [line for line in lines if line.startswith("  encoder (TransformerEncoder)")]
    assert len(modules) == 1


def test_show_counts_a_network_without_its_corpus(call: Callable[..., Done]) -> None:
    done = call("show", "dailydialog/hred", "--model")
    assert (done.code, done.err) == (0, "")
    vocabulary, parameters, forward = done.out.rstrip("\n").split("\n")[-3:]
    assert vocabulary == "vocabulary: 8,000 tokens (from the recipe; the corpus is missing)"
    assert parameters == "parameters: 9,670,320 in all, 7,622,320 without embeddings and output layer"
    assert re.fullmatch(r"forward: [\d,]+ FLOPs per target token \(64 target and 96 source tokens, .*\)", forward)


RESPOND_WRONG = [
    (b"not JSON\n", "questions:2: not JSON"),
    (b'{"text": "Hi"}\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b'{"context": []}\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b'{"context": "Hi"}\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b'{"context": ["Hi", 3]}\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b'{"context": ["\\ud800"]}\n', "questions:2: lone surrogate"),
    (b'["Hi"]\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b"\n", "questions:2: not JSON"),
    (b'{"context": ["\xff"]}\n', "questions:2: not UTF-8 at byte 15"),
    (b"[" * 100_000 + b"\n", "questions:2: not JSON"),
]


def test_respond_answers_each_line_or_refuses_all(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run = str(trained("transformer"))
    good = '{"context": ["Hello .", "Hi ! How are you ?"]}\n{"id": 7, "context": ["Good morning ."]}\n'
    (here / "questions").write_text(good, encoding="utf-8")
    done = call("respond", run, "--input", "questions", "--output", "answers")
    assert (done.code, done.out) == (0, "")
    answers = [json.loads(line) for line in (here / "answers").read_text(encoding="utf-8").splitlines()]
    assert [answer["id"] for answer in answers] == ["1", 7]
    assert answers[0]["context"] == ["Hello .", "Hi ! How are you ?"]
    assert [answer["response"] for answer in answers] == [answer["candidates"][0]["text"] for answer in answers]
    (here / "answers").unlink()
    before = files(here)
    for line, message in RESPOND_WRONG:
        (here / "questions").write_bytes(b'{"context": ["Hello ."]}\n' + line)
        done = call("respond", run, "--input", "questions", "--output", "answers")
        assert done.code == 2
        assert done.err.startswith(f"dialog: {message}")
        assert done.err.count("\n") == 1
        assert set(files(here)) == set(before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generation.search.name=gredy"], "generation: unknown search 'gredy'; did you mean 'greedy'?"),
        (["generation.search.name=os.getcwd"], "imports 'os.getcwd'; load it with --trust"),
        (["model.embedding_size=32"], "model.safetensors: does not fit the recipe"),
        (["modle.dropout=0"], "command line: modle: unknown key"),
        (["--input", "nowhere"], "nowhere: No such file"),
    ],
)
def test_a_run_is_loaded_as_it_is(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path], arguments: list[str], message: str
) -> None:
    run = str(trained("transformer"))
    before = files(here)
    done = call("respond", run, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert done.err.count("\n") == 1
    assert files(here) == before


def test_a_reader_may_have_enough(trained: Callable[[str], Path]) -> None:
    command = [sys.executable, "-m", "dialog", "respond", str(trained("transformer"))]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    _, err = child.communicate(b'{"context": ["Hi"]}\n' * 3, timeout=60)
    assert child.returncode == 141
    assert err == b""


# ------------------------------------------------------------------ signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_training_that_is_interrupted(here: Path, number: signal.Signals, code: int) -> None:
    arguments = [
        "train",
        TRANSFORMER,
        *TINY,
        "trainer.max_epochs=100000",
        "trainer.log_every_n_steps=1",
        "--output",
        "run",
    ]
    command = [sys.executable, "-m", "dialog", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    try:
        wait_for(here / "run" / "metrics.jsonl", child)
        child.send_signal(number)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == code
    assert out == ""
    assert "Traceback" not in err
    assert not (here / "run" / "model.safetensors").exists()


def wait_for(path: Path, child: subprocess.Popen[str]) -> None:
    """Until a file is there."""
    for _ in range(1200):
        if path.exists():
            return
        assert child.poll() is None, child.stderr and child.stderr.read()
        time.sleep(0.05)
    raise AssertionError(f"{path} has not come")


def test_show_does_not_hide_a_wrong_corpus_behind_a_missing_one(call: Callable[..., Done]) -> None:
    done = call("show", "dailydialog/hred", "data.corpus.name=dailydialogg", "--model")
    assert (done.code, done.err) == (
        2,
        "dialog: data.corpus: unknown corpus 'dailydialogg'; did you mean 'dailydialog'?\n",
    )
    assert call("show", "dailydialog/hred", "data.tokenizer.words=3", "--model").code == 2
