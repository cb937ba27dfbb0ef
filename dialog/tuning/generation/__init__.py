"""Measure searches on the validation split and select one by a rule.

Read first: `tune.py`.
"""
