"""Turn raw dialogues into examples, token arrays and batches.

Read first: `dialogue.py`, then `examples.py`.
"""
