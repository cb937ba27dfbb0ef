"""Match texts: fingerprints, leaks between splits, near duplicates and entropy.

Read first: `fingerprints.py`.
"""
