"""A queue of tiny runs for benchmarks/results/run.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dialog

SCRIPT = Path(dialog.__file__).parents[1] / "benchmarks" / "results" / "run.py"
OVERRIDES = """[data.corpus.size=60, data.tokenizer.vocabulary=400, data.batch_tokens=700, model.embedding_size=8,
    trainer.max_steps=12, trainer.val_check_interval=4, trainer.log_every_n_steps=1, checkpoint.every_n_steps=3,
    checkpoint.patience=null, generation.max_length=3, preflight=false]"""
QUEUE = f"""
second:
  stage: b
  purpose: a recipe fails, another run is shared
  recipes:
    quickstart/lstm_bahdanau: 0.1
    unknown: {{recipe: quickstart/transformr, hours: 0.5}}
  overrides: {OVERRIDES}
first:
  stage: a
  purpose: two recipes
  recipes: {{quickstart/lstm_bahdanau: 0.1, quickstart/transformer: 0.1}}
  overrides: {OVERRIDES}
  columns: [bits_per_byte, answer_accuracy, f1]
"""
Call = Callable[..., tuple[int, str]]
