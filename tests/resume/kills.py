"""Kill trainings at random steps, resume them, and compare them with uninterrupted ones.

    python tests/resume/kills.py FOLDER [--kills 20] [--families lstm transformer] [--worlds 1 2]

Prints a table; exits with 1 if a number differs.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from dataclasses import astuple
from functools import partial
from itertools import product
from pathlib import Path

from processes import Processes, Server, serving

from dialog.runs.proof import compare, lines

SETTINGS = [
    "data.corpus.size=60",
    "data.tokenizer.vocabulary=400",
    "data.batch_tokens=700",
    "data.bpe_dropout=0.1",
    "model.embedding_size=24",
    "model.dropout=0.3",
    "trainer.val_check_interval=7",
    "trainer.check_val_every_n_epoch=null",
    "trainer.accumulate_grad_batches=2",
    "trainer.log_every_n_steps=1",
    "trainer.accelerator=cpu",
    "trainer.enable_progress_bar=false",
    "checkpoint.every_n_steps=3",
    "checkpoint.patience=null",
    "logger=none",
    "preflight=false",
]
SIZES = {
    "lstm": (
        "quickstart/lstm_bahdanau",
        ["encoder.size=24", "decoder.size=24", "decoder.attention.size=16"],
    ),
    "transformer": (
        "quickstart/transformer",
        [
            f"{side}.{size}"
            for side in ("encoder", "decoder")
            for size in ("heads=2", "feed_forward_size=48")
        ],
    ),
}


def command(family: str, world: int, steps: int, folder: Path, *overrides: str) -> list[str]:
    """Return the arguments that train a small network with dropout, BPE dropout and
    accumulation.
    """
    recipe, sizes = SIZES[family]
    own = [f"model.{size}" for size in sizes] + [
        f"trainer.max_steps={steps}",
        f"trainer.devices={world}",
    ]
    return ["train", recipe, *SETTINGS, *own, *overrides, "--output", str(folder)]


def has_lines(folder: Path, count: int) -> bool:
    return lines(folder) >= count


def train(
    server: Server, family: str, world: int, folder: Path, *overrides: str, steps: int
) -> Path:
    """Train without interruption."""
    complete(server.start(*command(family, world, steps, folder, *overrides), world=world), folder)
    return folder


def train_with_kills(
    server: Server,
    family: str,
    world: int,
    folder: Path,
    *overrides: str,
    kills: int,
    steps: int,
    seed: int,
) -> Path:
    """Train, killed and resumed at random steps."""
    chance = random.Random(seed)
    training = server.start(*command(family, world, steps, folder, *overrides), world=world)
    for _ in range(kills):
        training.until(partial(has_lines, folder, lines(folder) + chance.randint(1, 6)))
        training.send(signal.SIGKILL, chance.randrange(world))
        training.send(signal.SIGKILL)
        assert training.wait() == [-signal.SIGKILL] * world
        training = server.start("train", "--resume", str(folder), world=world)
    complete(training, folder)
    return folder


def complete(training: Processes, folder: Path) -> None:
    """Wait for the end; resume once if gloo has crashed.

    gloo of torch 2.13 crashes in about one of a hundred sharded trainings on a busy machine, with a
    double free in ``gloo::transport::tcp::UnboundBuffer``. For the run this is a kill like any
    other.
    """
    codes = training.wait()
    if {-signal.SIGSEGV, -signal.SIGABRT} & set(codes):
        training = training.server.start("train", "--resume", str(folder), world=len(codes))
        codes = training.wait()
    assert not any(codes), training.output


def main() -> int:
    """Print the table; return 1 if a number differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--families", nargs="+", default=["lstm", "transformer"])
    parser.add_argument("--worlds", nargs="+", type=int, default=[1, 2])
    options = parser.parse_args()
    root = options.folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    print(
        "| family | processes | SIGKILLs | logged numbers | that differ | weights | that differ |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    same = True
    with serving(root) as server:
        for family, world in product(options.families, options.worlds):
            whole = train(
                server, family, world, root / f"{family}-{world}-whole", steps=options.steps
            )
            folder, plan = (
                root / f"{family}-{world}-killed",
                {"kills": options.kills, "steps": options.steps},
            )
            comparison = compare(
                whole, train_with_kills(server, family, world, folder, **plan, seed=world)
            )
            numbers = " | ".join(str(number) for number in (options.kills, *astuple(comparison)))
            print(f"| {family} | {world} | {numbers} |", flush=True)
            same &= comparison.same
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
