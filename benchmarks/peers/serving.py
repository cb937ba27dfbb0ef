"""Answer requests for generation on standard input; runs in the peers' environments.

A request is a JSON line: family, precision, width of the beam, rows, and the source ids. The answer
is the number of generated tokens of each row, and the seconds of the processor and of the clock.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import cache

TOKENS = 32
"""Length of each response."""
VOCABULARY = 8000
SPECIAL = 10
"""Source ids start here."""
Generate = Callable[[list[list[int]], int], list[int]]
"""From sources and the width of the beam (1: greedy) to the lengths of the responses."""


def serve(build: Callable[[str, str], Generate]) -> None:
    """Measure each request with the network that ``build(family, precision)`` returns."""
    # some peers print
    answers = sys.stdout
    sys.stdout = sys.stderr
    networks = cache(build)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            generate = networks(request["family"], request["precision"])
            clock = time.perf_counter()
            processor = time.process_time()
            lengths = generate(request["sources"], request["width"])
            answer = {
                "processor": time.process_time() - processor,
                "clock": time.perf_counter() - clock,
            }
            if set(lengths) != {TOKENS}:
                answer = {"error": f"responses of {sorted(set(lengths))} tokens"}
        except Exception as error:  # reported in the table
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


def padded(sources: list[list[int]], filler: int) -> list[list[int]]:
    """Pad sources to one length."""
    longest = max(map(len, sources))
    return [[*source, *[filler] * (longest - len(source))] for source in sources]
