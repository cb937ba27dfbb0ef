"""Training with Lightning: module, step, losses, objectives, optimizers, callbacks, loggers and
checkpoints.

Read first: `module.py`, then `step.py`.
"""
