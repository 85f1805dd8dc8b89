"""`python -m recipes.bench`: ours beside other libraries, in one process, as a ratio."""

from recipes.bench import commands_use  # noqa: F401, adds its verbs to bench
from recipes.bench.commands import bench

bench(prog_name="python -m recipes.bench")
