"""Compare training speed with peer systems, each run through its own trainer, on the same text with
the same sizes.

    python benchmarks/training.py data.path=DAILYDIALOG [KEY=VALUE ...] [--peers all] [--lengths]
    [--results FILE]

Print Markdown tables. Each measurement is appended to FILE at once, one JSON line per run; a second
call measures only what FILE lacks, so a crash loses nothing (`--again` also repeats failures,
`--table` only prints).

The text is DailyDialog in 8,000 pieces, prepared by `dialog prepare`: contexts of up to three turns
and 64 tokens, responses of up to 32 tokens. The peers read the same ids as words. Batches have
about 1,000 target tokens: dialog's by a token budget, the peers' by the equivalent number of
examples, grouped by length as they do. AdamW (OpenNMT-py has only Adam), learning rate 1e-3,
gradients clipped at 1, dropout 0.1, label smoothing 0.1.

- lstm: bidirectional encoder 1 x 512, decoder 1 x 512, embeddings 256, additive attention over 512
  (fairseq has only dot attention, which is cheaper; bare has none). lstm2 has two layers each.
- transformer: 3 + 3 layers of size 256, 4 heads, feed-forward 1,024.

Every run is a separate process; the systems take turns and the steps of all rounds are pooled. With
`--lengths` all sources have one length, 32 to 2,048. Families, precisions, systems and lengths are
options.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from environments import PEERS, NotBuiltError, default_folder, python_of
from training_table import Row, as_markdown
from training_texts import Texts, daily, even, tiny

from dialog.benchmark.bound import gemm_peak
from dialog.runs.folder import environment
from dialog.training.optimization.precision import has_bfloat16

FAMILIES = ("lstm", "transformer", "lstm2")
BOTH = ("32-true", "bf16-mixed")
FLOAT = BOTH[:1]
LENGTHS = (32, 128, 512, 2048)
SCRIPTS = Path(__file__).with_name("peers")
LIMIT = 1800
"""Time limit of a run in seconds."""


class System(NamedTuple):
    """A system: its name in tables, its script in `peers`, its environment, and its families and
    precisions.
    """

    title: str
    script: str = ""
    peer: str = ""
    families: Sequence[str] = FAMILIES
    precisions: Sequence[str] = FLOAT


SYSTEMS = {
    "dialog": System("dialog", precisions=BOTH),
    "loop": System("dialog's module in a loop without Lightning", "train_loop.py", precisions=BOTH),
    "joeynmt": System(PEERS["joeynmt"].version, "train_joeynmt.py", "joeynmt"),
    "opennmt": System(PEERS["opennmt"].version, "train_opennmt.py", "opennmt"),
    "eole": System(PEERS["eole"].version, "train_eole.py", "eole", precisions=BOTH),
    "fairseq": System(PEERS["fairseq"].version, "train_fairseq.py", "fairseq"),
    "marian": System(
        PEERS["marian"].version + ", Marian", "train_marian.py", "marian", FAMILIES[1:2], BOTH
    ),
    "tutorial": System("tutorial loop", "train_plain.py", families=FAMILIES[:1]),
    "bare": System("nn.LSTM without attention", "train_plain.py", families=FAMILIES[:1]),
}


def wanted(options: argparse.Namespace) -> Iterator[Row]:
    """Every run, the systems in turn."""
    lengths = options.lengths or [0]
    for number in range(1 if options.lengths else options.rounds):
        for length in lengths:
            for family in options.families:
                for name in options.systems:
                    system = SYSTEMS[name]
                    for precision in system.precisions:
                        if family in system.families and precision in options.precisions:
                            yield Row(name, family, precision, length, number)


# ------------------------------------------------------------------ runs


def measure(row: Row, texts: Texts, python: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one run, or its error."""
    system = SYSTEMS[row.system]
    # generated text
    extra = [key for key in options.overrides if not (row.length and key.startswith("data.path="))]
    overrides = [*texts.overrides, *sizes(row.family), f"trainer.precision={row.precision}", *extra]
    if options.device == "cuda":
        overrides.append("trainer.accelerator=gpu")
    if row.system in ("dialog", "loop") and texts.small:
        overrides = [*overrides, *texts.small]
    with tempfile.TemporaryDirectory() as work:
        output = Path(work) / "figures.json"
        content = {
            **row._asdict(),
            **{
                "recipe": texts.recipe,
                "overrides": overrides,
                "text": str(texts.folder),
                "rows": texts.rows,
            },
            **{"examples": texts.examples, "vocabulary": texts.vocabulary},
            **{"layers": layers(row.family), "work": work, "output": str(output)},
            "device": options.device,
            **{"warm_up": options.warm_up, "steps": options.steps, "launched": time.time()},
        }
        settings = Path(work) / "settings.json"
        settings.write_text(json.dumps(content))
        command = [python, str(SCRIPTS / system.script), str(settings)]
        if not system.script:
            steps = ["--steps", str(options.steps), "--warm-up", str(options.warm_up)]
            command = [
                python,
                "-m",
                "dialog",
                "benchmark",
                texts.recipe,
                *overrides,
                *steps,
                "--no-generation",
                "--json",
            ]
        return run(command, output, Path(work) / "log", options.device)


def run(command: Sequence[str], output: Path, log: Path, device: str) -> dict[str, Any]:
    """Run a process, which sees no GPU unless it is the device; return the JSON that it writes to a
    file or to standard output, or its error.
    """
    hidden = {} if device == "cuda" else {"CUDA_VISIBLE_DEVICES": ""}
    with log.open("w") as file, output.open("w") as out:
        try:
            done = subprocess.run(
                command,
                stdout=file if "--json" not in command else out,
                stderr=file,
                timeout=LIMIT,
                env={**os.environ, **hidden},
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not finished in {LIMIT} seconds"}
    try:
        figures: dict[str, Any] = json.loads(output.read_text())
    except ValueError:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        ended = (
            "killed, perhaps out of memory" if done.returncode < 0 else f"exit {done.returncode}"
        )
        return {"error": f"{ended}: {' / '.join(lines[-3:])[-500:]}"}
    return {"figures": figures.get("training", figures)}


def layers(family: str) -> int:
    """Return the number of layers of the encoder and of the decoder."""
    return {"lstm": 1, "lstm2": 2, "transformer": 3}[family]


def sizes(family: str) -> list[str]:
    """Return the overrides that set the sizes of dialog's networks."""
    common = ["model.embedding_size=256", "model.dropout=0.1", "model.loss.label_smoothing=0.1"]
    if family == "transformer":
        part = "{name: transformer, layers: 3, heads: 4, feed_forward_size: 1024}"
        return [*common, f"model.encoder={part}", f"model.decoder={part}"]
    size = f"size: 512, layers: {layers(family)}"
    attention = "attention: {name: additive, size: 512}"
    return [
        *common,
        f"model.encoder={{name: lstm, {size}}}",
        f"model.decoder={{name: lstm, {size}, {attention}}}",
    ]


def pythons(options: argparse.Namespace) -> dict[str, str]:
    """Return the Python of each system, or a colon and the reason why it could not be built."""
    pythons = {}
    for name in options.systems:
        try:
            peer = SYSTEMS[name].peer
            pythons[name] = str(python_of(options.environments, peer)) if peer else sys.executable
        except NotBuiltError as reason:
            pythons[name] = f":{reason}"
    return pythons


# ------------------------------------------------------------------ results


def read_results(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return earlier results; with --again without failures."""
    if not options.results.exists():
        return []
    lines = [json.loads(line) for line in options.results.read_text().splitlines()]
    return [line for line in lines if not (options.again and "error" in line)]


def collect(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return all results, measuring the missing ones."""
    results = read_results(options)
    done = {Row(**line["row"]) for line in results}
    missing = [row for row in wanted(options) if row not in done]
    if options.table or not missing:
        return results
    homes = pythons(options)
    with tempfile.TemporaryDirectory() as folder:
        prepared: dict[tuple[str, int], Texts] = {}
        for place, row in enumerate(missing, start=1):
            recipe = "transformer" if row.family == "transformer" else "lstm"
            texts = prepared.get((recipe, row.length)) or texts_of(
                row, recipe, Path(folder), options
            )
            prepared[recipe, row.length] = texts
            began = time.monotonic()
            home = homes[row.system]
            result = (
                {"error": home[1:]} if home.startswith(":") else measure(row, texts, home, options)
            )
            line = {
                "row": row._asdict(),
                **result,
                "gemm": gemm_peak(row.precision, options.device),
                **marks(),
            }
            with options.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            results.append(line)
            outcome = result.get("error") or f"{time.monotonic() - began:.0f} s"
            print(
                f"{place}/{len(missing)} {' '.join(map(str, row))}: {outcome}",
                file=sys.stderr,
                flush=True,
            )
    return results


def texts_of(row: Row, recipe: str, folder: Path, options: argparse.Namespace) -> Texts:
    """Return the text of a row."""
    place = folder / f"{recipe}-{row.length}"
    if options.quick:
        return tiny(place, recipe)
    return (
        even(place, recipe, row.length) if row.length else daily(place, recipe, options.overrides)
    )


def marks() -> dict[str, Any]:
    """Return the time and the environment."""
    here = environment()
    return {
        "environment": {
            key: here[key]
            for key in ("dialog", "git", "torch", "python", "cpu", "cores", "threads")
        }
    } | {"time": datetime.now().astimezone().isoformat(timespec="seconds")}


def arguments() -> argparse.Namespace:
    """Parse the command line and fill in dependent defaults."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="for dialog's recipes, such as data.path=DIR",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        default=[],
        choices=["all", *PEERS],
        metavar="PEER",
        help="to compare with",
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, help="exactly these")
    parser.add_argument("--families", nargs="+", default=FAMILIES[:2], choices=FAMILIES)
    parser.add_argument("--precisions", nargs="+", choices=BOTH, help="[those that the device has]")
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cuda" if torch.cuda.is_available() else "cpu",
        help="of all systems [cuda if there is one]",
    )
    parser.add_argument(
        "--steps", type=int, help="measured steps of a round [default: 25; with --lengths 3]"
    )
    parser.add_argument(
        "--warm-up", type=int, help="warm-up steps before them [default: 5; with --lengths 1]"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--lengths", nargs="*", type=int, metavar="LENGTH", help=f"of sources [{LENGTHS}]"
    )
    parser.add_argument(
        "--environments", type=Path, default=default_folder(), metavar="FOLDER", help="of the peers"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("benchmark-training.jsonl"), metavar="FILE"
    )
    parser.add_argument("--again", action="store_true", help="repeat failed measurements")
    parser.add_argument(
        "--table", action="store_true", help="print the results so far and measure nothing"
    )
    parser.add_argument(
        "--quick", action="store_true", help="dialog alone on a tiny corpus, as a test"
    )
    options = parser.parse_args()
    if options.lengths == []:
        options.lengths = LENGTHS
    if options.quick:
        options.steps = 2
        options.warm_up = 1
        options.rounds = 1
    options.steps = options.steps or (3 if options.lengths else 25)
    options.warm_up = options.warm_up or (1 if options.lengths else 5)
    native = BOTH if has_bfloat16(options.device) else FLOAT
    options.precisions = options.precisions or native
    peers = PEERS if "all" in options.peers else options.peers
    options.systems = options.systems or [
        name for name in SYSTEMS if not SYSTEMS[name].peer or name in peers
    ]
    return options


def main() -> None:
    """Measure what is missing and print all results."""
    options = arguments()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    titles = {name: system.title for name, system in SYSTEMS.items()}
    print(as_markdown(collect(options), titles))


if __name__ == "__main__":
    main()
