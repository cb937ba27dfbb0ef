"""Recurrences over tokens, each in two equal forms: one token, and chunks of tokens.

Every one is linear in its values: S_t = A_t S_{t-1} + k_t v_t', o_t = S_t' q_t, and A_t is what
differs.

Read first: `recurrence.py`, then `scalar_decay.py`.
"""
