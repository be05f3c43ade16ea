"""A suppression comment silences nothing.

What it does
------------
Reports a code or name in a ``# modelcheck: ignore[...]`` or ``# modelcheck: ignore-file[...]``
comment that has no finding to silence or is no rule, and a comment that cannot be understood,
which silences nothing.

Why it matters
--------------
A comment left behind after the fault was mended would hide the same fault when it returns, and
one with a slip of the pen hides less than its author thinks.

Example
-------
```python
x = 1  # modelcheck: ignore[MC101]
```

Use instead
-----------
```python
x = 1
```

Fix safety
----------
There is no fix: removing a comment is for its author.
"""

from __future__ import annotations

from collections.abc import Iterable

from modelcheck.findings import Finding
from modelcheck.rules.base import Context

CODE = "MC001"


def check(context: Context) -> Iterable[Finding]:
    """Nothing here: only the engine, after all other rules, knows what was silenced."""
    return ()
