"""Which hyperparameters: a learning rate, a size of batches, a search over many."""
