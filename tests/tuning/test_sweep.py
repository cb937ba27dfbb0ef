"""A sweep: the same budget for every recipe, also when interrupted; and the shipped sweeps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml

from dialog.cli import program
from dialog.config.compose import Composed, compose, shipped_folder
from dialog.config.schema import to_dict
from dialog.data.store.store import Store
from dialog.errors import UserError
from dialog.runs.check import check_recipe
from dialog.runs.train import PartOf, train
from dialog.training.callbacks.trial import PrunedError, TrialWatch
from dialog.tuning import sweep as sweeps
from dialog.tuning.results import best_of
from dialog.tuning.space import spaces, suggest
from dialog.tuning.sweep import SweepSettings, sweep

SPACE = {
    "optimizer.lr": {"low": 1e-4, "high": 1e-1, "log": True},
    "model.dropout": [0.0, 0.1, 0.2, 0.3],
}
NAMES = ["quickstart/lstm_bahdanau", "quickstart/transformer"]


class Training:
    """Stands in for training: the validation values are a function of the recipe."""

    def __init__(self, interrupted_at: int | None = None, fails_at: int = 0) -> None:
        self.count = 0
        self.places: list[tuple[str, str | None]] = []
        self.fails_at = fails_at
        self.interrupted_at = interrupted_at

    def __call__(
        self,
        composed: Composed,
        output: Path,
        *,
        quiet: bool,
        callbacks: list[TrialWatch],
        part_of: PartOf,
    ) -> None:
        self.places.append((part_of.run_name, part_of.group))
        (watch,) = callbacks
        self.count += 1
        (output / "checkpoints").mkdir(parents=True)
        for validation in range(1, 4):
            if self.count == self.interrupted_at and validation == 2:
                raise KeyboardInterrupt
            watch.steps, watch.target_tokens = 10 * validation, 100 * validation
            watch.values.append(self.value(composed, validation))
            if self.count == self.fails_at:
                raise UserError("diverged")
            if watch.stop(validation, watch.values[-1], validation / 3):
                raise PrunedError

    def value(self, composed: Composed, validation: int) -> float:
        lr, dropout = composed.recipe.optimizer["lr"], composed.recipe.model.dropout
        return abs(math.log10(lr) + 2.5) + dropout + 1 / validation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new sweep."""
    return tmp_path / "swept"


def begun(folder: Path, trials: int, **settings: Any) -> SweepSettings:
    asked = SweepSettings(dict.fromkeys(NAMES, SPACE), trials, **settings)
    sweeps.create([compose(name) for name in NAMES], asked, folder)
    return asked


def paths(found: dict[str, Any]) -> list[list[tuple[Any, ...]]]:
    """Everything in the results but trial numbers and clock times."""
    keys = ("state", "value", "overrides", "reason", "steps", "target_tokens")
    return [
        [tuple(map(str, (trial[key] for key in keys))) for trial in each["trials"]]
        for each in found["recipes"]
    ]


# ------------------------------------------------------------------ the budget


def test_every_recipe_gets_the_same_number_of_trials(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(fails_at=6)
    monkeypatch.setattr("dialog.tuning.sweep.train_run", training)
    found = sweep(folder, begun(folder, 10, sampler="random"))
    assert training.count == 20
    assert training.places[:3] == [
        (f"{NAMES[n % 2]} trial 00{n // 2}", folder.name) for n in range(3)
    ]
    states = [trial["state"] for each in found["recipes"] for trial in each["trials"]]
    assert {"complete", "pruned", "fail"} == set(states)
    for each in found["recipes"]:
        spent, trials = each["spent"], each["trials"]
        assert spent["trials"] == len(trials) == 10
        assert spent["target_tokens"] == sum(trial["target_tokens"] for trial in trials)
        assert (
            spent["pruned"]
            + spent["failed"]
            + sum(trial["state"] == "complete" for trial in trials)
            == 10
        )
        best = min(
            (trial for trial in trials if trial["state"] == "complete"),
            key=lambda trial: trial["value"],
        )
        assert best["value"] == each["best"]["value"]
        kept = [path.parent.name for path in (folder / "runs" / each["name"]).glob("*/checkpoints")]
        assert kept == [f"{best['trial']:03}"]  # weights of the others are gone
        (head, *_) = (folder / each["best"]["recipe"]).read_text(encoding="utf-8").splitlines()
        number = trials.index(best) + 1
        assert head.startswith(
            f"# Trial {number} of 10 of a sweep (runs/{each['name']}/{best['trial']:03}): "
        )
    assert json.loads((folder / "results.json").read_text(encoding="utf-8")) == json.loads(
        json.dumps(found)
    )
    assert len((folder / "sweep.md").read_text(encoding="utf-8").splitlines()) == 4


def test_trial_is_pruned_only_after_half_of_its_length(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SlowAtFirst(Training):
        """Each trial begins worse than those before it, and ends better."""

        def value(self, composed: Composed, validation: int) -> float:
            return self.count * (2 - validation)

    monkeypatch.setattr("dialog.tuning.sweep.train_run", SlowAtFirst())
    for each in sweep(folder, begun(folder, 6))["recipes"]:
        assert each["spent"]["pruned"] == 0
        assert each["best"]["trial"] == 5


def test_trial_knows_how_much_of_it_is_done(tmp_path: Path) -> None:
    fractions: list[float] = []

    def record(validation: int, value: float, done: float) -> bool:
        fractions.append(done)
        return validation == 3

    length = [
        "trainer.max_steps=8",
        "trainer.val_check_interval=2",
        "data.corpus.size=60",
        "logger=none",
    ]
    with pytest.raises(PrunedError):
        train(
            compose(NAMES[0], length), tmp_path / "run", quiet=True, callbacks=[TrialWatch(record)]
        )
    assert fractions == [0.25, 0.5, 0.75]


def test_interrupted_sweep_continues_as_uninterrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dialog.tuning.sweep.train_run", Training())
    whole = sweep(tmp_path / "whole", begun(tmp_path / "whole", 6))
    monkeypatch.setattr("dialog.tuning.sweep.train_run", Training(interrupted_at=6))
    asked = begun(tmp_path / "stopped", 6)
    with pytest.raises(
        KeyboardInterrupt, match=f"resume the sweep: .* sweep --resume {tmp_path}/stopped"
    ):
        sweep(tmp_path / "stopped", asked)
    between = json.loads((tmp_path / "stopped" / "results.json").read_text(encoding="utf-8"))
    assert [each["spent"]["trials"] for each in between["recipes"]] == [3, 2]
    monkeypatch.setattr("dialog.tuning.sweep.train_run", Training())
    resumed = sweep(tmp_path / "stopped", asked)
    assert paths(resumed) == paths(whole)
    assert [each["spent"]["interrupted"] for each in resumed["recipes"]] == [0, 1]


def test_a_second_process_trains_the_other_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, asked = Training(), begun(tmp_path / "shared", 3)
    others = []

    def second(composed: Composed, output: Path, **options: Any) -> None:
        if not others:
            others.append(composed.name)
            found = sweep(tmp_path / "shared", asked)["recipes"]
            assert [each["spent"]["trials"] for each in found] == [0, 3]
            with pytest.raises(
                UserError, match="other processes train all recipes that lack trials"
            ):
                sweep(tmp_path / "shared", asked)
        training(composed, output, **options)

    monkeypatch.setattr("dialog.tuning.sweep.train_run", second)
    shared = sweep(tmp_path / "shared", asked)
    assert [each["spent"]["interrupted"] for each in shared["recipes"]] == [0, 0]
    monkeypatch.setattr("dialog.tuning.sweep.train_run", Training())
    assert paths(shared) == paths(sweep(tmp_path / "alone", begun(tmp_path / "alone", 3)))


def test_best_trial_may_have_the_value_zero() -> None:
    study = optuna.create_study()
    for value in (1.0, 0.0, 2.0):
        study.add_trial(optuna.trial.create_trial(value=value, user_attrs={"spent": {}}))
    best = best_of(study)
    assert best is not None
    assert best.value == 0


def test_recipes_of_different_budgets_are_rejected() -> None:
    one, other = compose(NAMES[0]), compose(NAMES[1], ["trainer.max_steps=7"])
    with pytest.raises(
        UserError,
        match=r"the budgets differ: trainer\.max_steps is 2300 in .* and 7 in .*transformer",
    ):
        sweeps.check([one, other])
    with pytest.raises(UserError, match=r"the budgets differ: data\.corpus is "):
        sweeps.check([one, compose(NAMES[1], ["data.corpus.size=100"])])
    with pytest.raises(
        UserError, match=r"the budgets differ: data\.batch_examples is None in .* and 8 in "
    ):
        sweeps.check([one, compose(NAMES[1], ["data.batch_examples=8"])])


# ------------------------------------------------------------------ the space


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "all: {trainer.max_steps: [1, 2]}",
            r"space.yaml:1: trainer.max_steps is part of the budget",
        ),
        (
            "all:\n  data.corpus.size: [1, 2]",
            r"space.yaml:2: data.corpus.size is part of the budget",
        ),
        ("all: {data: [{}]}", "data is part of the budget"),
        (
            "quickstart/transfomer: {seed: [1]}",
            "is not a recipe of this sweep; did you mean 'quickstart/transformer'",
        ),
        (
            "all: {optimizer.lr: {low: 1, high: 1}}",
            "optimizer.lr: must be a list of values, or {low, high}",
        ),
        ("all: {optimizer.lr: {low: 0, high: 1, log: true}}", "optimizer.lr: must be"),
        ("all: {optimizer.lr: {low: 0, high: 1, many: 3}}", "optimizer.lr: must be"),
        ("all: {optimizer.lr: {low: 1, high: .inf}}", "optimizer.lr: must be"),
        ("all: {optimizer.lr: {low: 1, high: 8, step: -1}}", "optimizer.lr: must be"),
        ("all: {optimizer.lr: {low: 1, high: 8, step: two}}", "optimizer.lr: must be"),
        ("all: {optimizer.lr: {low: 0.1, high: 0.5, step: 0}}", "optimizer.lr: must be"),
        ("all: {optimizer.lr: {low: 0.1, high: 0.5, step: 0.7}}", "optimizer.lr: must be"),
        (
            "all: {optimizer.lr: {low: 0.1, high: 1.0, step: 0.1, log: true}}",
            "optimizer.lr: must be",
        ),
        ("all: {optimizer.lr: {low: 1, high: 8, log: maybe}}", "optimizer.lr: must be"),
        ("all: {optimizer.lr: []}", "optimizer.lr: must be"),
        ("all: 3", "all must be a mapping"),
        ("quickstart/transformer: {seed: [1]}", "no key to sweep for quickstart/lstm_bahdanau"),
    ],
)
def test_invalid_space(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        spaces(path, NAMES)


@pytest.mark.parametrize(
    ("choice", "values"),
    [
        ({"low": 1, "high": 2, "step": 0.5}, {"1.0", "1.5", "2.0"}),
        ({"low": 2, "high": 6, "step": 2}, {"2", "4", "6"}),
        ({"low": 2, "high": 4, "step": 1.0, "log": False}, {"2", "3", "4"}),
    ],
)
def test_step_of_a_range(choice: dict[str, Any], values: set[str]) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    drawn = {suggest(study.ask(), {"model.dropout": choice})[0] for _ in range(20)}
    assert drawn == {f"model.dropout={value}" for value in values}


@pytest.mark.parametrize(
    ("low", "high", "log", "digits"),
    [
        (3e-4, 3e-3, True, 3),
        (0.0, 0.5, False, 3),
        (-200.0, 200.0, False, 3),
        (0.9991, 0.9999, True, 7),
    ],
)
def test_a_drawn_number_has_few_digits_and_stays_in_its_range(
    low: float, high: float, *, log: bool, digits: int
) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    choice = {"low": low, "high": high, "log": log}
    texts = [suggest(study.ask(), {"optimizer.lr": choice})[0].partition("=")[2] for _ in range(50)]
    assert all(low <= float(text) <= high for text in texts)
    assert all(float(text) == float(f"{float(text):.{digits}g}") for text in texts), texts
    assert len(set(texts)) > 30


def test_section_of_a_recipe_overrides_all(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        "all: {seed: [1, 2], model.dropout: [0]}\nquickstart/transformer: {seed: [3]}\n",
        encoding="utf-8",
    )
    assert spaces(path, NAMES) == {
        NAMES[0]: {"seed": [1, 2], "model.dropout": [0]},
        NAMES[1]: {"seed": [3], "model.dropout": [0]},
    }


# ------------------------------------------------------------------ the command line


def test_sweep_of_both_families(
    tiny: Callable[..., Composed],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened: list[str] = []
    build = Store.__init__

    def noted(self: Store, folder: Path, split: str) -> None:
        opened.append(split)
        build(self, folder, split)

    monkeypatch.setattr(Store, "__init__", noted)
    monkeypatch.chdir(tmp_path)
    for family in ("lstm", "transformer"):
        own = tiny(family, "trainer.max_steps=4", "trainer.val_check_interval=2").yaml()
        Path(f"{family}.yaml").write_text(own, encoding="utf-8")
    Path("space.yaml").write_text(
        "all: {optimizer.lr: {low: 0.001, high: 0.1, log: true}}\n", encoding="utf-8"
    )
    command = [
        "sweep",
        "lstm.yaml",
        "transformer.yaml",
        "--space",
        "space.yaml",
        "--trials",
        "1",
        "--output",
        "s",
    ]
    program.main(command, standalone_mode=False)
    assert capsys.readouterr().out.count("| 1 | 0 | 0 |") == 2
    program.main(["sweep", "--resume", "s", "--trials", "2", "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert set(opened) == {"train", "validation"}
    tokens = {trial["target_tokens"] for each in found["recipes"] for trial in each["trials"]}
    assert len(tokens) == 1
    for each in found["recipes"]:
        assert each["spent"]["steps"] == 8
        best = compose(str(Path("s") / each["best"]["recipe"])).recipe
        assert f"optimizer.lr={best.optimizer['lr']}" in each["best"]["overrides"]
        assert best.about.trials == each["spent"]["trials"] > 1
        assert (
            Path("s") / "runs" / each["name"] / f"{each['best']['trial']:03}" / "model.safetensors"
        ).is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quickstart/transformer", "--space", "nothing"], "--space: unknown name 'nothing'"),
        ([], "give recipes to sweep, or --resume SWEEP"),
        (["--resume", "nowhere"], "not the folder of a sweep"),
        (["quickstart/transformer", "--space", "space.yaml"], "model.dropuot: unknown key"),
        (["quickstart/transformer", "--space", "other.yaml"], "adamw: unknown argument 'momentum'"),
    ],
)
def test_invalid_sweep_leaves_no_folder(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("space.yaml").write_text("all: {model.dropuot: [0.1]}\n", encoding="utf-8")
    Path("other.yaml").write_text("all: {optimizer.momentum: [0.1]}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        program.main(["sweep", *arguments], standalone_mode=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.yaml", "space.yaml"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--sampler random", "--sampler cannot change within a sweep"),
        ("--seed 2", "--seed cannot change"),
        ("--no-prune", "--no-prune cannot change"),
        ("--space regularisation", "--space cannot change"),
        ("--output other", "--output cannot change"),
        ("--sampler tpe --seed 1 --prune", ""),
    ],
)
def test_resumed_sweep_keeps_its_settings(option: str, message: str, folder: Path) -> None:
    begun(folder, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dialog.tuning.sweep.train_run", Training())
        outcome = pytest.raises(UserError, match=message) if message else nullcontext()
        with outcome:
            program.main(["sweep", "--resume", str(folder), *option.split()], standalone_mode=False)


def test_a_kill_leaves_no_sweep_or_one_to_resume(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dialog.tuning.sweep.write_json", fail)
        with pytest.raises(KeyboardInterrupt):
            begun(folder, 1)
    assert list(folder.parent.iterdir()) == []
    begun(folder, 1)
    assert sweeps.read_settings(folder).trials == 1


def test_unknown_setting_of_a_sweep_is_one_line(folder: Path) -> None:
    begun(folder, 1)
    path = folder / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pruner": "median"}))
    with pytest.raises(UserError, match=r"sweep\.json: unknown setting 'pruner'"):
        program.main(["sweep", "--resume", str(folder)], standalone_mode=False)


# ------------------------------------------------------------------ sweeps of Weights & Biases


def wandb_sweeps() -> list[Path]:
    return sorted(shipped_folder("sweeps").glob("wandb/*.yaml"))


@pytest.mark.parametrize("path", wandb_sweeps(), ids=lambda path: path.stem)
def test_wandb_command_is_a_recipe_with_overrides(path: Path) -> None:
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    for end in (0, -1):
        drawn = {
            key: {
                "value": given["values"][end]
                if "values" in given
                else given["min" if end == 0 else "max"]
            }
            for key, given in config["parameters"].items()
        }
        flags = create_sweep_command_args({"args": drawn})["args_no_hyphens"]
        command = create_sweep_command(list(config["command"]))
        program_name, verb, recipe, *overrides = command
        assert (program_name, verb, overrides.pop()) == (
            "dialog-seq2seq",
            "train",
            "${args_no_hyphens}",
        )
        made = to_dict(compose(recipe, [*overrides, *flags]).recipe)
        for key, value in drawn.items():
            found: Any = made
            for part in key.split("."):
                found = found[part]
            assert found == value["value"]
        assert made["logger"]["name"] == "wandb"
        check_recipe(compose(recipe, [*overrides, *flags, "trainer.accelerator=cpu"]).recipe)
    assert config["metric"] == {"name": "validation/bits_per_byte", "goal": "minimize"}


def test_sweeps_of_both_families_have_the_same_space_and_budget() -> None:
    one, *others = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in wandb_sweeps())
    assert others
    for other in others:
        assert {key: one[key] for key in ("method", "metric", "run_cap", "parameters")} == {
            key: other[key] for key in ("method", "metric", "run_cap", "parameters")
        }
