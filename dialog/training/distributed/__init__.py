"""Training in several processes: who starts them, what they exchange, sharding, and noticing a dead one.

Read first: `cluster.py` (who starts the processes), then `heartbeat.py` (who notices a dead one).
"""
