"""From a file of chats to a recipe: format, columns, sizes, time, and a first look at the result.

Read first: `survey.py`, then `sizes.py`.
"""
