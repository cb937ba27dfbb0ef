"""Training in several processes: launch, communication, sharding and failure detection.

Read first: `cluster.py` (launch), then `heartbeat.py` (failure detection).
"""
