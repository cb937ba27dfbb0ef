"""Kill trainings at random steps, go on with them, and compare them with trainings that were left alone.

    python tests/resume/kills.py FOLDER [--kills 20] [--families lstm transformer] [--worlds 1 2]

prints a table; it ends with 1 where a number differs.
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

from dialog.runs.proof import Comparison, compare, lines

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
    "lstm": ("quickstart/lstm_bahdanau", ["encoder.size=24", "decoder.size=24", "decoder.attention.size=16"]),
    "transformer": (
        "quickstart/transformer",
        [f"{side}.{each}" for side in ("encoder", "decoder") for each in ("heads=2", "feed_forward_size=48")],
    ),
}


def command(family: str, world: int, steps: int, folder: str, *overrides: str) -> list[str]:
    """``dialog train`` of a small network with every kind of chance in it."""
    recipe, sizes = SIZES[family]
    own = [f"model.{each}" for each in sizes] + [f"trainer.max_steps={steps}", f"trainer.devices={world}"]
    return ["train", recipe, *SETTINGS, *own, *overrides, "--output", folder]


def has_lines(folder: Path, count: int) -> bool:
    """Whether a record has so many."""
    return lines(folder) >= count


def killed(server: Server, family: str, world: int, *overrides: str, kills: int, steps: int, seed: int) -> Comparison:
    """Train once with so many kills at random steps and once without."""
    chance = random.Random(seed)
    whole, run = (server.folder / f"{family}-{world}-{name}" for name in ("whole", "killed"))
    to_its_end(server.start(*command(family, world, steps, str(whole), *overrides), world=world), whole)
    training = server.start(*command(family, world, steps, str(run), *overrides), world=world)
    for _ in range(kills):
        training.until(partial(has_lines, run, lines(run) + chance.randint(1, 6)))
        training.send(signal.SIGKILL, chance.randrange(world))
        training.send(signal.SIGKILL)
        assert training.wait() == [-signal.SIGKILL] * world
        training = server.start("train", "--resume", str(run), world=world)
    to_its_end(training, run)
    return compare(whole, run)


def to_its_end(training: Processes, run: Path) -> None:
    """Wait for it, and go on once where gloo has crashed.

    It does, of torch 2.13, about once in a hundred of the trainings below with shards on a busy machine: a double free
    in ``gloo::transport::tcp::UnboundBuffer``, or a pointer to nowhere. That is a kill as any other.
    """
    codes = training.wait()
    if {-signal.SIGSEGV, -signal.SIGABRT} & set(codes):
        training = training.server.start("train", "--resume", str(run), world=len(codes))
        codes = training.wait()
    assert not any(codes), training.said


def main() -> int:
    """Print a table; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--families", nargs="+", default=["lstm", "transformer"])
    parser.add_argument("--worlds", nargs="+", type=int, default=[1, 2])
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    print("| family | processes | SIGKILLs | logged numbers | that differ | weights | that differ |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    same = True
    with serving(chosen.folder.resolve()) as server:
        for family, world in product(chosen.families, chosen.worlds):
            found = killed(server, family, world, kills=chosen.kills, steps=chosen.steps, seed=world)
            numbers = " | ".join(str(each) for each in (chosen.kills, *astuple(found)))
            print(f"| {family} | {world} | {numbers} |", flush=True)
            same &= found.same
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
