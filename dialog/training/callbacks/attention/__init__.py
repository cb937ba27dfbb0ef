"""Attention maps and statistics of a run while it trains.

Read first: `recorder.py`.
"""
