"""Attention maps as a page that readers explore, as pictures, and as objects in Python; begin with
`page.py`.
"""
