"""The token store: memory-mapped examples, sorted by length, and the batch plan over them.

Read first: `store.py`.
"""
