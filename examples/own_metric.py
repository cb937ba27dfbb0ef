"""Evaluate a trained run with your own metric. docs/own_metrics.md lists the arguments of `update`.

Run `python examples/own_metric.py RUN [KEY=VALUE ...]`. trust=True allows the import of all that
the recipe of RUN names, so use it for runs of authors whom you trust.
"""

import sys

from torch import Tensor, tensor
from torchmetrics import Metric

import dialog
from dialog.runs.evaluation.evaluate import evaluate


class Questions(Metric):
    """Share of responses that end with a question mark."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("questions", default=tensor(0), dist_reduce_fx="sum")
        self.add_state("responses", default=tensor(0), dist_reduce_fx="sum")

    def update(self, responses: list[str]) -> None:
        """Count the responses of a batch."""
        self.questions += sum(response.rstrip().endswith("?") for response in responses)
        self.responses += len(responses)

    def compute(self) -> Tensor:
        """Return the share, in [0, 1]."""
        return self.questions / self.responses


if __name__ == "__main__":
    metric = "metrics=[{name: own_metric.Questions}]"
    run = dialog.load(sys.argv[1], overrides=[metric, *sys.argv[2:]], trust=True)
    print(evaluate(run, "test").metrics["Questions"])
