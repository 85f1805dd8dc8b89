"""Where other libraries plug in; nothing else in the package imports them."""
