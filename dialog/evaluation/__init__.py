"""How well a network answers the references of a split, each example exactly once."""
