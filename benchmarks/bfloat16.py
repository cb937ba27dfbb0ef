"""Compare bfloat16 mixed precision with float32 by a recipe's validation bits per byte.

    python benchmarks/bfloat16.py dailydialog/lstm_bahdanau [KEY=VALUE ...] [--float32 RUN]

Train the recipe with ``32-true`` (or read that run) and with ``bf16-mixed``, and print both. A CPU that only emulates
bfloat16 is a hundred times too slow, so matrix products run in float32 kernels with the numerics of bfloat16 hardware:
bfloat16 factors, float32 sums, rounded once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dialog.config.compose import compose
from dialog.runs.train import train
from dialog.training.optimization.precision import device_of, has_bfloat16

aten = torch.ops.aten


class Products(TorchDispatchMode):
    """Compute bfloat16 matrix products with float32 kernels: same factors, same precision of sums and results."""

    products = frozenset((aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default))

    def __torch_dispatch__(
        self,
        function: Callable[..., object],
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Run one operation."""
        if function not in self.products or args[0].dtype != torch.bfloat16:
            return function(*args, **(kwargs or {}))
        whole = [value.float() if isinstance(value, Tensor) else value for value in args]
        product = function(*whole, **(kwargs or {}))
        assert isinstance(product, Tensor)
        return product.bfloat16()


def best(folder: Path) -> float:
    """Return the lowest validation bits per byte of a run."""
    rows = (json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return min((row["validation/bits_per_byte"] for row in rows if "validation/bits_per_byte" in row), default=math.nan)


def main() -> None:
    """Train the missing runs and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--float32", type=Path, metavar="RUN", help="a run of this recipe in float32")
    options = parser.parse_args()
    runs = {"32-true": options.float32}
    for precision in ("32-true", "bf16-mixed"):
        composed = compose(options.recipe, [*options.overrides, f"trainer.precision={precision}"])
        emulated = precision == "bf16-mixed" and not has_bfloat16(device_of(composed.recipe.trainer.accelerator))
        if runs.get(precision) is None:
            with Products() if emulated else contextlib.nullcontext():
                runs[precision] = train(composed).folder
    whole, mixed = best(runs["32-true"]), best(runs["bf16-mixed"])
    print(f"{options.recipe}: 32-true {whole:.4f}, bf16-mixed {mixed:.4f} bits per byte, {mixed / whole - 1:+.2%}")


if __name__ == "__main__":
    main()
