"""Auxiliary training objectives beside response generation.

Read first: `objective.py`.
"""
