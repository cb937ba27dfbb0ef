"""Parsing code that several corpus readers share.

Read first: `records.py`.
"""
