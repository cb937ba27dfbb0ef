"""Run folders: created at once or not at all, whatever stops the process."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from importlib import metadata
from itertools import count
from pathlib import Path

import pytest

from dialog.config.compose import Composed
from dialog.config.schema import Recipe
from dialog.data.store.store import Store
from dialog.errors import UserError
from dialog.runs.folder import environment, opened, read_recipe
from dialog.version import __version__

At = Callable[[int, Callable[[], object]], None]


@pytest.fixture
def at_sync(monkeypatch: pytest.MonkeyPatch) -> At:
    """``at_sync(n, action)``: run an action before the n-th fsync."""

    def set_up(number: int, action: Callable[[], object]) -> None:
        calls, fsync = count(1), os.fsync

        def instead(handle: int) -> None:
            if next(calls) == number:
                action()
            fsync(handle)

        monkeypatch.setattr(os, "fsync", instead)

    return set_up


@pytest.fixture
def recipe(tiny: Callable[..., Composed]) -> Recipe:
    return tiny("lstm").recipe


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.endurance
def test_kill_leaves_no_run_or_one_to_resume(
    recipe: Recipe, prepared: Path, tmp_path: Path, at_sync: At
) -> None:
    """SIGKILL at each fsync while a run is created."""
    store = Store(prepared, "validation")
    exists = []
    for number in count(1):
        folder = tmp_path / "run"
        child = os.fork()
        if not child:
            at_sync(number, kill)
            with opened(folder, recipe, store, first=True, resumed=False):
                os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        exists.append(folder.exists())
        with opened(folder, recipe, store, first=True, resumed=folder.exists()):
            assert read_recipe(folder).seed == recipe.seed
        assert list(tmp_path.iterdir()) == [folder]
        shutil.rmtree(folder)
        if not ended:
            break
        assert ended == -signal.SIGKILL
    assert len(exists) > 8
    assert exists.count(True) > 1  # of the last ones, one was killed


def test_full_disk_leaves_no_run(
    recipe: Recipe, prepared: Path, tmp_path: Path, at_sync: At
) -> None:
    store = Store(prepared, "validation")
    for number in range(1, 8):
        at_sync(number, fill)
        with (
            pytest.raises(UserError, match=r"run: .*No space left"),
            opened(tmp_path / "run", recipe, store, first=True, resumed=False),
        ):
            pass
        assert list(tmp_path.iterdir()) == []


def test_a_run_created_meanwhile_is_not_replaced(
    recipe: Recipe, prepared: Path, tmp_path: Path, at_sync: At
) -> None:
    store, folder = Store(prepared, "validation"), tmp_path / "run"

    def create() -> None:
        folder.mkdir()
        (folder / "recipe.yaml").write_text("mine")

    at_sync(1, create)
    with (
        pytest.raises(UserError, match="exists"),
        opened(folder, recipe, store, first=True, resumed=False),
    ):
        pass
    assert (folder / "recipe.yaml").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [folder]


def test_resume_removes_what_a_kill_left(recipe: Recipe, prepared: Path, tmp_path: Path) -> None:
    store, folder = Store(prepared, "validation"), tmp_path / "run"
    with opened(folder, recipe, store, first=True, resumed=False):
        pass
    (folder / "attention" / "step-12").mkdir(parents=True)
    kept = [folder / "attention" / "step-12" / name for name in ("98.json", "98.npz")]
    left = [
        path.with_name(f".{path.name}.0123abcd")
        for path in (*kept, folder / "metrics.jsonl", folder / "initial.json")
    ]
    for path in (*kept, *left):
        path.write_text("{}")
    with opened(folder, recipe, store, first=True, resumed=True):
        assert [path for path in (*kept, *left) if path.exists()] == kept


def test_a_checkout_that_is_not_installed_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    distribution = metadata.distribution

    def without_dialog(name: str) -> metadata.Distribution:
        if name.startswith("dialog"):
            raise metadata.PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(metadata, "distribution", without_dialog)
    assert environment()["dialog"] == __version__
