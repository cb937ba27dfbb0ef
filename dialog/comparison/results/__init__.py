"""The content of results.json, read from the finished runs of a comparison.

Read first: `content.py`.
"""
