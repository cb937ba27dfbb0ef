"""Text comparison shared by filters and inspection: hashes, leaks between splits, near duplicates,
entropy.

Read first: `fingerprints.py`.
"""
