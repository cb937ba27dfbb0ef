"""Two tiny models, trained once for all tests on a tiny built-in corpus, and their prepared
data.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from dialog.config.compose import Composed

if TYPE_CHECKING:
    from processes import Server

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")  # no deadlines: the machine may be busy

FAMILIES = {
    "lstm": (
        "quickstart/lstm_bahdanau",
        ["model.encoder.size=24", "model.decoder.size=24", "model.decoder.attention.size=16"],
    ),
    "transformer": (
        "quickstart/transformer",
        [
            f"model.{side}.{each}"
            for side in ("encoder", "decoder")
            for each in ("heads=2", "feed_forward_size=48")
        ],
    ),
}
TINY = [
    "data.corpus.size=60",
    "data.tokenizer.vocabulary=400",
    "data.batch_tokens=1200",
    "model.embedding_size=24",
    "optimizer.lr=1e-2",
    "optimizer.schedule.warmup_steps=10",
    "trainer.max_steps=100",
    "trainer.val_check_interval=25",
    "trainer.check_val_every_n_epoch=null",
    "trainer.log_every_n_steps=5",
    "trainer.accelerator=cpu",
    "trainer.devices=1",
    "trainer.enable_progress_bar=false",
    "logger=none",
]


@pytest.fixture(scope="session", autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests away from the user's cache, corpora and accounts, from the network, and on one
    core; a comparison erases the tokens of a few examples only.
    """
    import torch

    # started with nohup, processes of tests would ignore it too
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIALOG_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("DIALOG_OFFLINE", "1")
        patch.setenv("OMP_NUM_THREADS", "1")
        # every comparison measures these examples, each in one pass for each of its tokens
        patch.setattr("dialog.analysis.attention.split.SAMPLE", 4)
        for name in (
            "DIALOG_DATA",
            "DIALOG_DEBUG",
            *(name for name in os.environ if name.startswith("WANDB")),
        ):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(autouse=True)
def stopped_wandb() -> Iterator[None]:
    """Stop the wandb service that a test has started in this process; the next test's processes
    would join it.
    """
    yield
    if wandb := sys.modules.get("wandb"):
        wandb.teardown()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts the command line in processes that need not import torch again."""
    from processes import serving

    with serving(tmp_path_factory.mktemp("processes")) as running:
        yield running


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Composed]:
    """``tiny(family, *overrides)``: a composed recipe that trains in a second or two."""
    from dialog.config.compose import compose

    def composed(family: str, *overrides: str) -> Composed:
        name, sizes = FAMILIES[family]
        return compose(name, [*TINY, *sizes, *overrides])

    return composed


@pytest.fixture(scope="session")
def prepared(tiny: Callable[..., Composed]) -> Path:
    """Folder of the prepared tiny corpus."""
    from dialog.runs.prepare import prepare_data

    return prepare_data(tiny("lstm").recipe)


@pytest.fixture(scope="session")
def trained(
    tiny: Callable[..., Composed], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """``trained(family)``: the run folder of a tiny model. Copy it before changing it."""
    from dialog.runs.evaluation.evaluate import evaluate
    from dialog.runs.load import load
    from dialog.runs.train import train

    root = tmp_path_factory.mktemp("runs")

    @cache
    def run(family: str) -> Path:
        train(tiny(family), root / family, quiet=True)
        evaluate(load(root / family), "test", quiet=True)
        return root / family

    return run
