"""What happens beside the training loop."""
