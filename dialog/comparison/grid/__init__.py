"""The runs of a comparison, contenders x seeds: read from the command line, trained where missing,
resumed.

Read first: `folder.py`.
"""
