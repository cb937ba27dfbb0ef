"""Recipes: their schema, their composition from groups and overrides, and components by name.

Read first: `compose.py`.
"""
