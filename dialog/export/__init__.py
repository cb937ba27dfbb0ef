"""Export of a trained run to formats of other engines, each checked against the run.

Read first: `export.py`.
"""
