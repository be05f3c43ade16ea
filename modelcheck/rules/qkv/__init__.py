"""Query, key and value projections that no fuser takes."""
