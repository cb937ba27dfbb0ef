"""Auxiliary training objectives beside response generation.

Read first: `objectives.py`.
"""
