"""Text of the numbers and metrics of a report.

Read first: `numbers.py`.
"""
