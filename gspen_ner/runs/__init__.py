"""What recipes do: runs, trials and what came out of them."""
