"""The fields of results.json, and the text of numbers and metrics in a report.

Read first: `results.py`.
"""
