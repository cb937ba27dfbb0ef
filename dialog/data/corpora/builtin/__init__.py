"""Generated corpora: built-in dialogues and synthetic tasks.

Read first: `builtin_dialogues.py`.
"""
