"""Measure where a model attends.

Read first: `maps.py`.
"""
