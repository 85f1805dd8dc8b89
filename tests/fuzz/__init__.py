"""Every reader gets broken files: it reads them or refuses them with a clear error, and never anything else.

python -m tests.fuzz --inputs 100000        all readers; --only NAME for one, --seed for other inputs
"""
