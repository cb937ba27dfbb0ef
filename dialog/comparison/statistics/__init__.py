"""Statistics of a comparison: intervals and tests over seeds and dialogues, in plain numpy.

Read first: `differences.py`.
"""
