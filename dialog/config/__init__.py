"""Recipes: their typed sections, their composition from groups and overrides, and components by name.

Read first: `compose.py`.
"""
