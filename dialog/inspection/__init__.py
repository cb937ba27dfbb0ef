"""The data doctor: what a corpus has that a model should not learn, or be measured on."""
