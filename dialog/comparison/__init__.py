"""Compare recipes on the same data, over several seeds: parity, results, report.

Read first: `compare.py`.
"""
