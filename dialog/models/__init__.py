"""Networks: any encoder with any decoder, any attention scorer. Needs torch, knows nothing of data or training."""
