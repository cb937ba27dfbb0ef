"""Networks: any encoder with any decoder and any attention scorer.

Imports torch, never data or training.

Read first: `contracts.py`, then `seq2seq.py`.
"""
