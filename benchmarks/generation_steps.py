"""CPU milliseconds of one generated token, beside another checkout of this repository.

    git worktree add /tmp/before COMMIT
    OMP_NUM_THREADS=1 python benchmarks/generation_steps.py --baseline /tmp/before [--rounds 5] [--only luong]

Models of configs/model with random weights generate exactly 64 tokens for each source, by greedy search and beam 5,
prepared as `Responder` prepares them. One process per checkout; they take turns within a round. Columns: medians of the
milliseconds per step, and the median of the ratios of a round, this checkout / baseline.

With ``--settings``, the searches are those of `SETTINGS`, each beside the search without its last key.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODELS = (
    *("lstm_bahdanau", "gru_bahdanau", "lstm_luong", "lstm_no_attention", "sankar2019_lstm_attention"),
    *("sankar2019_lstm", "transformer", "transformer_modern"),
)
CELLS = [(1, 1), (1, 32), (5, 1), (5, 32)]
"""Width of the beam and number of sources."""
VOCABULARY, SOURCE, STEPS = 8000, 48, 64
SETTINGS = (
    {"name": "sampling", "top_p": 0.9},
    {"name": "sampling", "typical_p": 0.9},
    {"name": "sampling", "top_k": 50, "top_p": 0.9},
    {"name": "sampling", "top_k": 50, "typical_p": 0.9},
    {"name": "greedy", "repetition_penalty": 1.2},
    {"name": "greedy", "frequency_penalty": 0.2},
    {"name": "beam", "width": 5, "repetition_penalty": 1.2},
    {"name": "beam", "width": 5, "frequency_penalty": 0.2},
)
"""Searches of which the cost of the last key is measured."""


def serve() -> None:
    """For each line ``[model, precision, search, rows]`` of standard input, print the CPU milliseconds of a step."""
    import torch
    import yaml

    from dialog.config.schema import GenerationConfig
    from dialog.data.tokenizers.tokenizer import BOS, PAD
    from dialog.generation.build import build_search
    from dialog.generation.network_step import NetworkStep
    from dialog.models.inference import PreparedNetworks
    from dialog.models.seq2seq import Seq2Seq
    from dialog.training.optimization.allocator import tune_process

    tune_process()  # as dialog.load does
    torch.set_num_threads(1)
    limits = GenerationConfig(min_length=STEPS, max_length=STEPS)
    models: dict[str, PreparedNetworks] = {}
    for line in sys.stdin:
        name, precision, component, rows = json.loads(line)
        search = build_search(component, limits)
        key = f"{name} {precision}"
        if key not in models:
            settings = yaml.safe_load((ROOT / f"configs/model/{name}.yaml").read_text(encoding="utf-8"))
            settings.pop("loss", None)
            torch.manual_seed(1)
            model = Seq2Seq(VOCABULARY, padding=PAD, **settings).eval()
            model = model.bfloat16() if precision == "bfloat16" else model
            models[key] = PreparedNetworks([model], int8=precision == "int8")
        source = torch.randint(4, VOCABULARY, (rows, SOURCE))
        with torch.inference_mode():
            began = time.process_time()
            step = NetworkStep(models[key].current())
            memory, state = step.start(source, source != PAD)
            search(step, source.new_full((rows, 1), BOS), memory, state, source)
        print(1000 * (time.process_time() - began) / STEPS, flush=True)


def start(checkout: Path) -> subprocess.Popen[str]:
    """Start a server that imports ``dialog`` from a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, __file__, "--serve"], stdin=pipe, stdout=pipe, text=True, env=environment)


def measure(server: subprocess.Popen[str], *request: object) -> float:
    """Return the milliseconds of a step."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return float(server.stdout.readline())


def main() -> None:
    """Print a row for each model and batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", type=Path, default=ROOT, help="another checkout; by default this one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precisions", nargs="+", default=["float32"], metavar="NAME", help="float32, bfloat16, int8")
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--settings", action="store_true", help="measure the cost of truncations and penalties")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    servers = start(ROOT if options.settings else options.baseline), start(ROOT)
    if options.settings:
        pairs = [(dict(list(search.items())[:-1]), search, 32) for search in SETTINGS]
    else:
        searches = {1: {"name": "greedy"}, 5: {"name": "beam", "width": 5}}
        pairs = [(searches[width], searches[width], rows) for width, rows in CELLS]
    print("| model | precision | search | rows | baseline ms | ms | ratio |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for model in (name for name in MODELS if options.only in name):
        for precision, (plain, search, rows) in itertools.product(options.precisions, pairs):
            cells = [(model, precision, component, rows) for component in (plain, search)]
            rounds = [
                [measure(server, *cell) for server, cell in zip(servers, cells, strict=True)]
                for _ in range(options.rounds + 1)
            ][1:]
            before, after = (statistics.median(side) for side in zip(*rounds, strict=True))
            ratio = statistics.median(after / before for before, after in rounds)
            words = " ".join(f"{key}={value}" for key, value in search.items() if key != "name")
            figures = f"{before:.2f} | {after:.2f} | {ratio:.2f}"
            print(f"| {model} | {precision} | {search['name']} {words} | {rows} | {figures} |", flush=True)
    for server in servers:
        server.terminate()
    return None


if __name__ == "__main__":
    main()
