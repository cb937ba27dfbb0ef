"""Sections of a comparison report, each a function of results.json.

Read first: `scores.py`.
"""
