"""Searching for a response. A search knows no model: only a step from tokens to scores."""
