"""Metrics of meaning, which need packages and files of the user; a recipe adds them.

Read first: `words.py`. All work without a network: models and vectors are read from local folders
    and files.
"""
