"""Conversation with trained models in a terminal or a pipe.

Read first: `session.py`.
"""
