"""What `modelcheck scan` of one file costs, as a multiple of importing click and rich and parsing.

    python benchmarks/one_file.py FILE [RUNS]

CPU seconds (user + system) of child processes, medians; the two commands take turns, so that
a busy machine slows both.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

BASELINE = "import ast, sys, click, rich; ast.parse(open(sys.argv[1], 'rb').read())"


def cpu_seconds(command: list[str]) -> float:
    """User and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(path: str, runs: int = 7) -> tuple[float, float]:
    """Median CPU seconds of the scan and of the baseline."""
    scan = [sys.executable, "-m", "modelcheck", "scan", path]
    baseline = [sys.executable, "-c", BASELINE, path]
    pairs = [(cpu_seconds(scan), cpu_seconds(baseline)) for _ in range(runs)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def main() -> None:
    """Print both times and their ratio."""
    path = sys.argv[1]
    scan, baseline = measure(path, int(sys.argv[2]) if len(sys.argv) > 2 else 7)
    print(f"scan {scan:.3f} s, baseline {baseline:.3f} s, ratio {scan / baseline:.2f}")


if __name__ == "__main__":
    main()
