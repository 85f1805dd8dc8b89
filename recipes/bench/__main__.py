"""`python -m recipes.bench`: benchmarks of ours against peers."""

from recipes.bench.commands import bench

bench(prog_name="python -m recipes.bench")
