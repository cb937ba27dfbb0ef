"""Parsing steps that are not specific to one corpus: lines, tables, JSON, chat messages, splits.

Read first: `records.py`.
"""
