"""Show results to users: HTML, Markdown, terminal tables, drawings and progress bars.

Read first: `tables.py`.
"""
