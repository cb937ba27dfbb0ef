"""Auxiliary training objectives beside response generation.

Read first: `contract.py`.
"""
