"""One module or folder per export format.

Read first: `ctranslate2.py`.
"""
