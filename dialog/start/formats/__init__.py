"""Detection of the format of a file of chats, and of its columns.

Read first: `detection.py`.
"""
