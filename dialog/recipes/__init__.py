"""The recipes that ship with the package: their measured results, copies of them, and whether they hold.

Read first: `measured.py`.
"""
