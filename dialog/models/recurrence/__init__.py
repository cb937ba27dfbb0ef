"""Recurrences that train in parallel over tokens, and the encoders and decoders made of them.

Read first: `kernels/recurrence.py`.
"""
