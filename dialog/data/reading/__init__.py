"""Read files: compression, JSON, Parquet, word vectors, and downloads.

Read first: `files.py`.
"""
