"""Preparation: turn a raw corpus into a tokenizer and a token store, in one process or many.

Read first: `prepare.py`.
"""
