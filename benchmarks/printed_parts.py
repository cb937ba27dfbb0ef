"""Command line of the simulations: `coverage.py` and `decisions.py`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping


def print_parts(description: str | None, parts: Mapping[str, Callable[[int], None]]) -> None:
    """Print the tables that the command line chooses, each with its time."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--parts", default=",".join(parts))
    options = parser.parse_args()
    for part in options.parts.split(","):
        began = time.process_time()
        parts[part](options.simulations)
        print(
            f"\n{options.simulations} simulations, {time.process_time() - began:.0f} s of CPU\n",
            flush=True,
        )
