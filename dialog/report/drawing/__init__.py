"""Drawings of attention maps and curves, as SVG and as images.

Read first: `svg.py`.
"""
