"""Compare the loader's speed with training's, in tokens per second, and print the share of padding.

    python benchmarks/loader.py RECIPE [KEY=VALUE ...] [--steps N]

The loader reads an epoch of the recipe's prepared data in this process, without workers. Training runs forward,
backward and optimizer step of the recipe's network on the first N batches (30), loaded beforehand. Columns: real
source and target tokens per second; ratio of loader to training.
"""

from __future__ import annotations

import argparse
import time

import torch

from dialog.build import build_module
from dialog.config.compose import compose
from dialog.config.schema import Recipe
from dialog.data.batching import Batch
from dialog.data.datamodule import BatchLoader
from dialog.data.store.store import Store
from dialog.runs.prepare import prepare_data


def main() -> None:
    """Measure and print both speeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    recipe = compose(options.recipe, options.overrides).recipe
    folder = prepare_data(recipe, quiet=False)
    store = Store(folder, "train")
    loader = BatchLoader(store, batch_tokens=recipe.data.batch_tokens, seed=recipe.seed, shuffle=True)
    began = time.perf_counter()
    tokens = padded = 0
    for batch in loader:
        tokens += batch.source_tokens + batch.target_tokens
        padded += batch.source.numel() + batch.target[:, 1:].numel()
    loading = tokens / (time.perf_counter() - began)
    training = train_speed(recipe, store, [batch for batch, _ in zip(loader, range(options.steps), strict=False)])
    print(f"batches of {recipe.data.batch_tokens:,} tokens: {len(loader):,}, padding {1 - tokens / padded:.1%}")
    print(f"loader:   {loading:>12,.0f} tokens/s")
    print(f"training: {training:>12,.0f} tokens/s on {device()} with {torch.get_num_threads()} threads")
    print(f"loader / training: {loading / training:,.0f}")


def train_speed(recipe: Recipe, store: Store, batches: list[Batch]) -> float:
    """Return the tokens per second of training on loaded batches."""
    model = build_module(recipe, len(store.tokenizer), store.tokenizer).model.to(device())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = [batch._replace(source=batch.source.to(device()), target=batch.target.to(device())) for batch in batches]
    began = 0.0
    for number, batch in enumerate([batches[0], *batches]):
        if number == 1:
            wait()
            began = time.perf_counter()
        logits = model(batch.source, batch.source != 0, batch.target[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    wait()
    return sum(batch.source_tokens + batch.target_tokens for batch in batches) / (time.perf_counter() - began)


def device() -> str:
    """Return the device of the network."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def wait() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
