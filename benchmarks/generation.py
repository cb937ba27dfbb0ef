"""Speed of generation, beside other systems: greedy search and beam 5, batches of 32 and single
sources.

    python benchmarks/generation.py [--systems dialog fairseq ...] [--rounds 5] [--clock]

Every response has exactly 32 tokens (the end token is masked). Same sizes for all: S-LSTM
(bidirectional encoder of 2 x 256, decoder of 512, attention over 512), S-Transformer (3 + 3 layers
of 256, 4 heads, feed-forward 1,024), embeddings of 256, a vocabulary of 8,000, random weights,
sources of 16 to 64 tokens; one thread each. One process per system; they take turns within a round.
Each figure is the best of all rounds: tokens per second of the processor for 32 sources,
milliseconds for one; with ``--clock`` of the wall clock, which needs an idle machine.

    OMP_NUM_THREADS=1 python benchmarks/generation.py --settings [--families lstm ...] [--rounds 5]

What truncations, penalties and banned words cost dialog: milliseconds of the processor for a token
of 32 responses without and with each of `SETTINGS`, medians, and the median ratio of a round. The
tables of 2,000 banned words over 20,000 pieces: seconds, and MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import environments

PEERS = Path(__file__).parent / "peers"
sys.path.insert(0, str(PEERS))
from serving import (  # noqa: E402
    SPECIAL,
    TOKENS,
    VOCABULARY,
    Generate,
    padded,
    serve,
)

ROOT = Path(__file__).parents[1]
SIZES: dict[str, dict[str, Any]] = {
    "lstm": {
        "encoder": {"name": "lstm", "size": 512},
        "decoder": {"name": "lstm", "size": 512, "attention": {"name": "additive", "size": 512}},
    },
    "transformer": {
        side: {"name": "transformer", "layers": 3, "heads": 4, "feed_forward_size": 1024}
        for side in ("encoder", "decoder")
    },
}
BEAM: dict[str, Any] = {"name": "beam", "width": 5}
SETTINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "sampling"}, {"top_p": 0.9}),
    ({"name": "sampling"}, {"typical_p": 0.9}),
    ({"name": "sampling", "top_k": 50}, {"top_p": 0.9}),
    ({"name": "sampling", "top_k": 50}, {"typical_p": 0.9}),
    *(
        (search, penalty)
        for search in ({"name": "greedy"}, BEAM)
        for penalty in ({"repetition_penalty": 1.2}, {"frequency_penalty": 0.2})
    ),
]
"""Searches, and what is added to each."""
CELLS = [(1, 32), (5, 32), (1, 1), (5, 1)]
"""Width of the beam and number of sources."""


class System(NamedTuple):
    """An environment, by default that of dialog, and the precisions of each family."""

    environment: str
    lstm: Sequence[str]
    transformer: Sequence[str]


OWN = ("float32", "bfloat16", "int8")
SYSTEMS = {
    "dialog": System("", OWN, OWN),
    "plain": System("", OWN[:2], OWN[:2]),
    "onnxruntime": System("", ("float32", "int8"), ("float32", "int8")),
    "fairseq": System("fairseq", ("float32",), ("float32",)),
    "joeynmt": System("joeynmt", ("float32",), ("float32",)),
    "opennmt": System("opennmt", ("float32",), ("float32",)),
    "marian": System("marian", (), ("float32", "bfloat16")),
    "ctranslate2": System("", (), ("float32", "int8")),
}
"""bfloat16 and int8 of the others: fairseq, JoeyNMT and OpenNMT-py have none on a CPU. ``plain`` is
dialog without prepared weights, ``onnxruntime`` its searches over the exported step.
"""


def build(
    family: str,
    precision: str,
    components: dict[int, dict[str, Any]] | None = None,
    system: str = "dialog",
) -> Generate:
    """Return dialog's model with random weights, and searches by number, by default by width."""
    import torch

    from dialog.config.schema import GenerationConfig
    from dialog.data.tokenizers.tokenizer import BOS, PAD
    from dialog.generation.network_step import NetworkStep
    from dialog.generation.responder import build_search
    from dialog.models.inference import PreparedNetworks
    from dialog.models.seq2seq import Seq2Seq
    from dialog.training.optimization.allocator import tune_process

    tune_process()  # as dialog.load does
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Seq2Seq(VOCABULARY, padding=PAD, embedding_size=256, **SIZES[family]).eval()
    model = model.bfloat16() if precision == "bfloat16" else model
    step_of: Callable[[], Any] = lambda: NetworkStep([model])  # noqa: E731
    if system == "dialog":
        networks = PreparedNetworks([model], int8=precision == "int8")
        step_of = lambda: NetworkStep(networks.current())  # noqa: E731
    elif system == "onnxruntime":
        exported = exported_step(model, int8=precision == "int8")
        step_of = lambda: exported  # noqa: E731
    limits = GenerationConfig(min_length=TOKENS, max_length=TOKENS)
    components = components or {1: {"name": "greedy"}, 5: BEAM}
    searches = {number: build_search(component, limits) for number, component in components.items()}

    @torch.inference_mode()
    def generate(sources: list[list[int]], width: int) -> list[int]:
        source = torch.tensor(padded(sources, PAD))
        step = step_of()
        memory, state = step.start(source, source != PAD)
        replies = searches[width](
            step, source.new_full((len(source), 1), BOS), memory, state, source
        )
        return [len(best.tokens) for best, *_ in replies]

    return generate


def exported_step(model: Any, *, int8: bool) -> Any:
    """Return a network as a step that ONNX Runtime computes, on one thread."""
    import dataclasses

    import onnxruntime
    import torch
    from onnxruntime.quantization import quantize_dynamic
    from torch import Tensor

    from dialog.export.formats.onnx.writing import ENCODER, NEXT, STEP, write_networks
    from dialog.models.state import Rows

    @dataclasses.dataclass(frozen=True)
    class Parts(Rows):
        tensors: tuple[Tensor, ...]

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        write_networks(model, Path(folder))
        sessions = []
        for name in (ENCODER, STEP):
            path = Path(folder, name)
            if int8:
                path = path.with_name(f"int8_{name}")
                quantize_dynamic(Path(folder, name), path)
            sessions.append(onnxruntime.InferenceSession(path, options))
    encoder, step = sessions
    outputs = [output.name for output in encoder.get_outputs()]
    inputs = {value.name for value in step.get_inputs()}
    state_names = [name for name in outputs if name.startswith("state.")]
    memory_names = [name for name in outputs if not name.startswith("state.")]
    wanted = ["logits", *(NEXT + name for name in state_names)]
    assert {*outputs, "tokens"} == inputs

    class Step:
        def start(self, source: Tensor, mask: Tensor) -> tuple[Parts, Parts]:
            """Encode a source [N, S]; return memory and state."""
            values = encoder.run(outputs, {"source": source.numpy(), "mask": mask.numpy()})
            tensors = dict(zip(outputs, map(torch.from_numpy, values), strict=True))
            return tuple(
                Parts(tuple(tensors[name] for name in names))
                for names in (memory_names, state_names)
            )

        def __call__(self, tokens: Tensor, memory: Parts, state: Parts) -> tuple[Tensor, Parts]:
            """Read tokens [N, T]; return logits [N, T, V] and the new state."""
            parts = zip(
                [*memory_names, *state_names], [*memory.tensors, *state.tensors], strict=True
            )
            values = {name: tensor.numpy() for name, tensor in parts}
            logits, *new = map(
                torch.from_numpy, step.run(wanted, {"tokens": tokens.numpy(), **values})
            )
            return logits, Parts(tuple(new))

    return Step()


def print_settings(families: Sequence[str], rounds: int) -> None:
    """Print what each of `SETTINGS` costs, and the tables of a long list of banned words."""
    print(
        "| model | search | setting | ms without | ms | ratio |\n| --- | --- | --- | ---: | ---: |"
        " ---: |"
    )
    components = {}
    for number, (search, added) in enumerate(SETTINGS):
        components |= {2 * number: search, 2 * number + 1: search | added}
    for family in families:
        generate = build(family, "float32", components)
        times: dict[int, list[float]] = {number: [] for number in components}
        for turn in range(rounds + 1):  # the first warms up
            for number, measured in times.items():
                began = time.process_time()
                generate(texts(32, seed=turn), number)
                measured += [1000 * (time.process_time() - began) / TOKENS] if turn else []
        for number, (search, added) in enumerate(SETTINGS):
            before = times[2 * number]
            after = times[2 * number + 1]
            ratio = statistics.median(one / other for one, other in zip(after, before, strict=True))
            figures = (
                f"{statistics.median(before):.2f} | {statistics.median(after):.2f} | {ratio:.2f}"
            )
            print(f"| {family} | {plain(search)} | {plain(added)} | {figures} |", flush=True)
    print_banned_words(2000, 20000)


def plain(settings: dict[str, Any]) -> str:
    """Return settings as on a command line."""
    return " ".join(f"{key}={value}" for key, value in settings.items())


def print_banned_words(count: int, vocabulary: int) -> None:
    """Print the time and the memory of the tables of random banned words over random pieces."""
    from dialog.generation.banned_words import BannedWords

    generator = random.Random(1)

    def word(shortest: int) -> str:
        return "".join(
            generator.choices("etaoinshrdlucmfwygpbvk", k=generator.randint(shortest, shortest + 6))
        )

    pieces = [*(bytes([byte]) for byte in range(256))]
    pieces += [
        f"{' ' * generator.randint(0, 1)}{word(2)}".encode()
        for _ in range(vocabulary - len(pieces))
    ]
    words = [word(4) for _ in range(count)]
    began = time.process_time()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    banned = BannedWords.build(words, pieces)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
    tables = [
        *vars(banned).values(),
        *vars(banned.completing).values(),
        *vars(banned.completing_at_end).values(),
    ]
    size = sum(getattr(table, "nbytes", 0) for table in tables)
    print(
        f"{count} banned words over {vocabulary} pieces: {seconds:.2f} s, {size / 2**20:.1f} MiB",
        end="",
    )
    print(f" ({peak / 1024:.0f} MiB more than before while they are built)")


class Server:
    """A process that generates with one system."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        environment = SYSTEMS[name].environment
        python = environments.python_of(folder, environment) if environment else sys.executable
        peer = PEERS / f"generate_{name}.py"
        script = [str(peer)] if peer.exists() else [__file__, "--serve", name]
        variables = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": "" if environment else str(ROOT),
        }
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [str(python), *script],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
            env=variables,
        )

    def measure(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line else {"error": "the process has ended"}


def rows_of_table(
    servers: Sequence[Server], family: str, rounds: int, clock: str
) -> Iterator[list[str]]:
    """Yield a row for each system and precision of a family; systems take turns within a round."""
    variants = [
        (server, precision)
        for server in servers
        for precision in getattr(SYSTEMS[server.name], family)
    ]
    figures: dict[tuple[str, str], list[str]] = {
        (server.name, precision): [] for server, precision in variants
    }
    for width, rows in CELLS:
        best: dict[tuple[str, str], float] = {}
        for turn in range(rounds * (1 if rows > 1 else 4) + 1):  # the first warms up
            sources = texts(rows, seed=turn)
            for server, precision in list(variants):
                answer = server.measure(
                    {"family": family, "precision": precision, "width": width, "sources": sources}
                )
                if "error" in answer:
                    print(
                        f"{server.name}, {family}, {precision}: {answer['error']}",
                        file=sys.stderr,
                        flush=True,
                    )
                    variants.remove((server, precision))
                elif turn:
                    key = server.name, precision
                    best[key] = min(best.get(key, float("inf")), answer[clock])
        for key, seconds in best.items():
            figures[key].append(
                f"{rows * TOKENS / seconds:,.0f}" if rows > 1 else f"{1000 * seconds:.1f}"
            )
    for (name, precision), cells in figures.items():
        yield [family, name, precision, *cells]


def texts(rows: int, seed: int) -> list[list[int]]:
    """Return random sources; all rounds have the same lengths, 16 to 64, or 40 for a single one."""
    # some peers need this order
    lengths = [40] if rows == 1 else [64 - 48 * row // (rows - 1) for row in range(rows)]
    generator = random.Random(seed)
    return [[generator.randrange(SPECIAL, VOCABULARY) for _ in range(length)] for length in lengths]


def main() -> None:
    """Print a table for each family."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--families", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument(
        "--rounds", type=int, default=5, help="of batches; four times as many of single sources"
    )
    parser.add_argument(
        "--clock", action="store_const", const="clock", default="processor", help="wall clock"
    )
    parser.add_argument(
        "--environments", type=Path, default=environments.default_folder(), metavar="FOLDER"
    )
    parser.add_argument(
        "--settings", action="store_true", help="measure truncations, penalties and banned words"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(partial(build, system=options.serve))
    if options.settings:
        return print_settings(options.families, options.rounds)
    servers = []
    for name in options.systems:
        try:
            servers.append(Server(name, options.environments))
        except environments.NotBuiltError as reason:
            print(f"{name}: not installed: {reason}", file=sys.stderr, flush=True)
    print("| model | system | precision | greedy, 32 | beam 5, 32 | greedy, 1 | beam 5, 1 |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for family in options.families:
        for row in rows_of_table(servers, family, options.rounds, options.clock):
            print(f"| {' | '.join(row)} |", flush=True)
    for server in servers:
        server.process.terminate()
    return None


if __name__ == "__main__":
    main()
