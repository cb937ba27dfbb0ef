"""Several recipes, several seeds, the same data: what is equal, what differs, and one report."""
