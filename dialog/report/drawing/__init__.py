"""Draw attention maps and learning curves as SVG and as images.

Read first: `svg.py`.
"""
