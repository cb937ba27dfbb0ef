"""Run folders: check a recipe, prepare its data, train, resume, load and evaluate.

Read first: `train.py`.
"""
