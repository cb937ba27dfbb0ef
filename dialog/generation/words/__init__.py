"""Find words in text that grows token by token, however the words are split into tokens.

Read first: `patterns.py` defines words and their boundaries; `automaton.py` finds them in bytes.
"""
