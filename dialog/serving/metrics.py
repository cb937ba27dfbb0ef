"""Figures of the service in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds."""


class Histogram:
    """Counts of times by `BUCKETS`."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count a time."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of a metric."""
        count = 0
        for bound, number in zip([*map(str, BUCKETS), "+Inf"], self.counts, strict=True):
            count += number
            yield f'{name}_bucket{{le="{bound}"}} {count}'
        yield f"{name}_sum {self.total}"
        yield f"{name}_count {count}"


class Metrics:
    """Figures of all requests."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds = Histogram()
        self.first_text = Histogram()

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request that is answered."""
        self.requests[route, status] += 1
        self.seconds.add(seconds)

    def text(self, gauges: Mapping[str, Sequence[tuple[str, float]]]) -> str:
        """Return all figures; ``gauges`` has the values of models by the name of a metric."""
        lines = ["# TYPE dialog_requests_total counter"]
        for (route, status), number in sorted(self.requests.items()):
            lines.append(f'dialog_requests_total{{route="{route}",status="{status}"}} {number}')
        for name, histogram in (("request", self.seconds), ("first_text", self.first_text)):
            lines.append(f"# TYPE dialog_{name}_seconds histogram")
            lines += histogram.lines(f"dialog_{name}_seconds")
        for name, values in gauges.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines.append(f"# TYPE dialog_{name} {kind}")
            lines += [f'dialog_{name}{{model="{label(model)}"}} {value}' for model, value in values]
        return "\n".join(lines) + "\n"


def label(text: str) -> str:
    """Return a text escaped for the value of a label."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
