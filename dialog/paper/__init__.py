"""A finished comparison as the parts of a paper: ``compare DIR --paper OUT``.

Read first: `folder.py`.
"""
