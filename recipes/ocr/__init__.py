"""Words of letter images: the five systems of the paper, and the study of inference."""
