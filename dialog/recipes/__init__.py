"""The recipes that ship with the package: measured results, copies and verification.

Read first: `measured.py`.
"""
