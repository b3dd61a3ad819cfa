"""Benchmarks are scripts beside the package; their tests import them by file name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "credit"))
