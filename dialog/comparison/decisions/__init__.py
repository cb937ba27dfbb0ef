"""Decisions of a comparison, from p-values alone: what is tested, in which order, and how often.

Read first: `family.py`.
"""
