"""Formulas of the metrics on NumPy arrays: statistics of responses, and values of their sums.

The classes of `dialog.metrics` are these as `torchmetrics.Metric` classes. A comparison of files
needs no more than these, so that it starts without torch.

Read first: `likelihood.py`; `additive.py` explains the sums, `counts.py` the counts of n-grams.
"""
