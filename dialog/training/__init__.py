"""Training with Lightning: the module, its loss, optimizers, schedules, callbacks, loggers and checkpoints."""
