"""Measure trained models beyond their scores: attention, calibration, use of the history, FLOPs.

Read first: `attention/maps.py`.
"""
