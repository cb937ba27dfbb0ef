"""The token store: memory-mapped examples sorted by length, and the plan that divides them into
batches.

Read first: `store.py`; `plan.py` decides the size of each batch from `data.batch_tokens`.
"""
