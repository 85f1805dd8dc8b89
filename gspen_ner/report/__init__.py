"""What people look at: pages and pictures."""
