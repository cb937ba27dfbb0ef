"""Attention maps and what was measured of them: as pages that readers explore, pictures and text.

Read first: `page.py`.
"""
