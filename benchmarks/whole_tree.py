"""What a scan of a whole tree of models costs, as a multiple of parsing the same files.

    python benchmarks/whole_tree.py FOLDER [--profile FILE]

CPU seconds of this one process for every ``modeling_*.py`` below the folder: reading and
`ast.parse`, and `Scanner.scan` with every rule, which reads and parses them too. All files are
parsed first; then the two take turns, some files at a time, so that a busy machine slows both.
Between scans parsing is slower than alone (caches are cold), so that there are two ratios. Imports
of modelcheck and its rules are in no figure. ``--profile`` writes a cProfile of the scan and prints
no ratio, which profiling would distort.
"""

from __future__ import annotations

import argparse
import ast
import cProfile
import time
import warnings
from pathlib import Path

from modelcheck.rules.base import all_rules
from modelcheck.scan import Scanner

TURN = 25  # files


def modeling_files(folder: Path) -> list[str]:
    """Every modeling file below a folder, sorted."""
    return sorted(str(path) for path in folder.rglob("modeling_*.py"))


def parse_seconds(paths: list[str]) -> float:
    """CPU seconds to read and parse the files, one tree in memory at a time."""
    before = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in paths:
            ast.parse(Path(path).read_bytes(), filename=path)
    return time.process_time() - before


def scan_seconds(paths: list[str]) -> tuple[float, int]:
    """CPU seconds to scan the files with every rule, and the number of findings."""
    before = time.process_time()
    result = Scanner().scan(paths)
    return time.process_time() - before, len(result.findings)


def main() -> None:
    """Print both times and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--profile", metavar="FILE", help="write a profile of the scan instead")
    options = parser.parse_args()
    paths = modeling_files(options.folder)
    if not paths:
        parser.error(f"{options.folder}: no modeling_*.py below it")
    all_rules()
    if options.profile:
        cProfile.runctx("scan_seconds(paths)", globals(), {"paths": paths}, options.profile)
        return
    alone = parse_seconds(paths)
    parse, scan, found = 0.0, 0.0, 0
    for start in range(0, len(paths), TURN):
        turn = paths[start : start + TURN]
        parse += parse_seconds(turn)
        seconds, findings = scan_seconds(turn)
        scan += seconds
        found += findings
    print(
        f"{len(paths)} files: scan {scan:.2f} s ({found} findings); parse {alone:.2f} s alone, "
        f"ratio {scan / alone:.2f}; {parse:.2f} s in turns, ratio {scan / parse:.2f}"
    )


if __name__ == "__main__":
    main()
