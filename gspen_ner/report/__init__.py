"""HTML pages: predicted entities, and the report of an evaluation."""
