"""Named entity recognition: reading and generating data, predictions, and their evaluation."""
