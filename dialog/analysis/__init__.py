"""Measure trained models beyond their scores: attention, calibration, use of the context, FLOPs.

Read first: `attention/maps.py`.
"""
