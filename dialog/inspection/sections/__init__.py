"""The sections of an inspection, one file per question about the data.

Read first: `leak.py`.
"""
