"""What the studies share: data, the paper's five systems, results over seeds, pictures, the command."""
