"""What the studies share: settings, trained systems in folders, tables over seeds, the command."""
