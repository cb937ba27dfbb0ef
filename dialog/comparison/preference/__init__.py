"""Preferences between responses: judged by a program, or rated by people in a study.

Read first: `pairs.py`; then `judge.py`, or `study.py` and `ratings.py`.
"""
