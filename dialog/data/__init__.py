"""Data: dialogues become examples, token arrays and batches.

Read first: `dialogue.py`, `examples.py`. The size of a batch is decided in `store/plan.py`, from
    `data.batch_tokens`.
"""
