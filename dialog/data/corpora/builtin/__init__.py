"""Generated corpora: the built-in dialogues and the synthetic tasks.

Read first: `builtin_dialogues.py`.
"""
