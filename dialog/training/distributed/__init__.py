"""Training in several processes: launch, collectives, sharding, and stopping together.

Read first: `cluster.py`.
"""
