"""Tags of images (MIRFLICKR25k): the five systems of the paper."""
