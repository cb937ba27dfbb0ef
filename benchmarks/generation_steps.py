"""CPU milliseconds of one generated token, beside another checkout of this repository.

    git worktree add /tmp/before COMMIT
    OMP_NUM_THREADS=1 python benchmarks/generation_steps.py --baseline /tmp/before [--rounds 5]

Each model of configs/model generates exactly 64 tokens for each of its sources, greedily, with random weights. One
process per checkout; they take turns within a round. Columns: medians of the milliseconds per step, and the median of
the ratios of a round, this checkout / baseline.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODELS = ("lstm_bahdanau", "gru_bahdanau", "lstm_luong", "transformer", "transformer_modern")
VOCABULARY, PADDING, BEGIN, SOURCE, STEPS = 8000, 0, 1, 48, 64


def serve() -> None:
    """For each line ``[model, rows]`` of standard input, print the CPU milliseconds of a step."""
    import torch
    import yaml

    from dialog.models.seq2seq import Seq2Seq

    torch.set_num_threads(1)
    models: dict[str, Seq2Seq] = {}
    for line in sys.stdin:
        name, rows = json.loads(line)
        if name not in models:
            settings = yaml.safe_load((ROOT / f"configs/model/{name}.yaml").read_text(encoding="utf-8"))
            torch.manual_seed(1)
            settings.pop("loss", None)
            models[name] = Seq2Seq(VOCABULARY, padding=PADDING, **settings).eval()
        source = torch.randint(2, VOCABULARY, (rows, SOURCE))
        with torch.inference_mode():
            memory, state = models[name].start(source, source != PADDING)
            tokens = source.new_full((rows, 1), BEGIN)
            began = time.process_time()
            for _ in range(STEPS):
                logits, state = models[name].step(tokens, memory, state)
                tokens = logits[:, -1:].argmax(-1)
        print(1000 * (time.process_time() - began) / STEPS, flush=True)


def start(checkout: Path) -> subprocess.Popen[str]:
    """Start a server that imports ``dialog`` from a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, __file__, "--serve"], stdin=pipe, stdout=pipe, text=True, env=environment)


def measure(server: subprocess.Popen[str], model: str, rows: int) -> float:
    """Return the milliseconds of a step."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps([model, rows]) + "\n")
    server.stdin.flush()
    return float(server.stdout.readline())


def main() -> None:
    """Print a row for each model and batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", type=Path, default=ROOT, help="another checkout; by default this one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    servers = start(options.baseline), start(ROOT)
    print("| model | rows | baseline ms | ms | ratio |\n| --- | ---: | ---: | ---: | ---: |")
    for model in (name for name in MODELS if options.only in name):
        for rows in (1, 32):
            rounds = [[measure(server, model, rows) for server in servers] for _ in range(options.rounds + 1)][1:]
            before, after = (statistics.median(side) for side in zip(*rounds, strict=True))
            ratio = statistics.median(after / before for before, after in rounds)
            print(f"| {model} | {rows} | {before:.2f} | {after:.2f} | {ratio:.2f} |", flush=True)
    for server in servers:
        server.terminate()
    return None


if __name__ == "__main__":
    main()
