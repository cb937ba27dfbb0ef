"""Attention statistics as text, picture and page.

Read first: `columns.py`.
"""
