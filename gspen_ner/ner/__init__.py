"""What each task reads and how it is scored."""
