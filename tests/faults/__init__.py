"""What happens when things go wrong: hostile model folders, full disks, kills."""
