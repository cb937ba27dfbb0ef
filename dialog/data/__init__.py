"""Dialogues become examples, token arrays and batches."""
