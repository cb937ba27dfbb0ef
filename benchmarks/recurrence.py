"""Training time of the recurrent mixers relative to the Transformer, in one process on one thread.

    python benchmarks/recurrence.py models                # whole networks of configs/model, 9 M parameters
    python benchmarks/recurrence.py layers --lengths 512 4096
    python benchmarks/recurrence.py generation            # time of a step after contexts of two lengths

Repetitions are interleaved, so that other work on the machine slows all alike; times are CPU times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from dialog.build import build_model
from dialog.config.compose import compose
from dialog.models.recurrence import MIXERS
from dialog.models.recurrence.layers import MixerDecoderLayer
from dialog.models.recurrence.mixers.mixer import START, MixerState
from dialog.models.seq2seq import Seq2Seq
from dialog.models.transformer.layers import EncoderLayer
from dialog.models.transformer.transformer_settings import TransformerSettings

VOCABULARY = 8000
SIZE = 256
SETTINGS = TransformerSettings(input_size=SIZE, heads=4, feed_forward_size=1024, layers=1)


def interleaved(steps: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Return the median CPU seconds of each step; the first round is not measured."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_number in range(repeats + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if round_number:
                times[name].append(time.process_time() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def report(times: dict[str, float], tokens: int, base: str, **facts: object) -> None:
    """Print one JSON line for each name."""
    for name, seconds in times.items():
        row = {
            "name": name,
            **facts,
            "microseconds_per_token": round(1e6 * seconds / tokens, 2),
            "ratio": round(seconds / times[base], 3),
        }
        print(json.dumps(row), flush=True)


def kept_bytes(run: Callable[[], Tensor]) -> int:
    """Return the bytes of all tensors that a forward pass keeps for the backward pass."""
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = run()  # must live until all storages are counted
        total = sum(storages.values())
    del outputs
    return total


def training_step(net: nn.Module, run: Callable[[], Tensor]) -> Callable[[], None]:
    """Return a step of forward and backward."""

    def step() -> None:
        net.zero_grad(set_to_none=True)
        run().square().mean().backward()

    return step


def models(names: Iterable[str], source: int, repeats: int) -> None:
    """Time whole networks with batches of 3,072 tokens."""
    target = 20
    rows = max(1, 3072 // (source + target))
    sources, targets = (torch.randint(6, VOCABULARY, (rows, n)) for n in (source, target))
    steps = {}
    for name in ("transformer", *names):
        model = build_model(compose(f"dailydialog/{name}").recipe.model, VOCABULARY).train()
        steps[name] = training_step(model, _forward(model, sources, targets))
    report(interleaved(steps, repeats), rows * target, "transformer", source=source, target=target)


def _forward(model: Seq2Seq, sources: Tensor, targets: Tensor) -> Callable[[], Tensor]:
    return lambda: model(sources, sources != 0, targets)


def layers(names: Iterable[str], lengths: Iterable[int], tokens: int, repeats: int) -> None:
    """Time one causal layer with its feed-forward network, at equal tokens a batch."""
    for length in lengths:
        rows = max(1, tokens // length)
        inputs = torch.randn(rows, length, SIZE)
        attention = EncoderLayer(SETTINGS)
        passes: dict[str, tuple[nn.Module, Callable[[], Tensor]]] = {
            "transformer": (attention, _causal(attention, inputs))
        }
        for name in names:
            if name == "slstm" and length > 600:
                continue
            width = 344 if name == "min_gru" else None
            layer = MixerDecoderLayer(SETTINGS, {"name": name}, width=width, cross_attention=False)
            passes[name] = (layer, _mixed(layer, inputs))
        for name, (_, run) in passes.items():
            kilobytes = kept_bytes(run) / 1000 / (rows * length)
            print(json.dumps({"name": name, "length": length, "kB_per_token": round(kilobytes, 1)}))
        steps = {name: training_step(*pair) for name, pair in passes.items()}
        report(interleaved(steps, repeats), rows * length, "transformer", length=length)


def _causal(layer: EncoderLayer, inputs: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        def attend(x: Tensor) -> Tensor:
            keys, values = layer.self_attention.keys_values(x)
            attended: Tensor = layer.self_attention(x, keys, values, causal=True)
            return attended

        states: Tensor = layer.self_residual(inputs, attend)
        output: Tensor = layer.feed_residual(states, layer.feed_forward)
        return output

    return run


def _mixed(layer: MixerDecoderLayer, inputs: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        outputs: Tensor = layer(inputs, START, None, None)[0]
        return outputs

    return run


@torch.inference_mode()
def generation(names: Iterable[str], lengths: Iterable[int], repeats: int) -> None:
    """Time one token of one row after contexts of different lengths."""
    for name in names:
        layer = MixerDecoderLayer(SETTINGS, {"name": name}, width=None, cross_attention=False)
        token = torch.randn(1, 1, SIZE)
        steps = {}
        for length in lengths:
            _, state = layer(torch.randn(1, length, SIZE), START, None, None)
            steps[f"{name} after {length}"] = _tokens(layer, token, state)
        report(interleaved(steps, repeats), 100, next(iter(steps)))


def _tokens(layer: MixerDecoderLayer, token: Tensor, state: MixerState) -> Callable[[], None]:
    def step() -> None:
        for _ in range(100):
            layer(token, state, None, None)

    return step


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["models", "layers", "generation"])
    parser.add_argument("--names", nargs="+", default=list(MIXERS))
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 4096])
    parser.add_argument("--source", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch of layers")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(json.dumps({"torch": torch.__version__, "load": round(os.getloadavg()[0], 1)}))
    if options.what == "models":
        models(options.names, options.source, options.repeats)
    elif options.what == "layers":
        layers(options.names, options.lengths, options.tokens, options.repeats)
    else:
        generation(options.names, options.lengths, options.repeats)
