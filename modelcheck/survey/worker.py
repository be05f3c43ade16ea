"""A worker process that does many jobs, one after the other, and stays warm in between.

Requests and answers are JSON lines: a request names a job (``module:function``) and its
payload, the answer has a ``value`` or an ``error``. What a job prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
from typing import IO, Any

from modelcheck.errors import ModelcheckError, WorkerError


def main() -> None:
    """Import what the first request says, then serve until stdin ends."""
    gc.set_threshold(50_000, 10, 10)
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        setup = json.loads(sys.stdin.readline())
        if setup["memory_mb"]:
            limit = setup["memory_mb"] * 1024 * 1024
            with contextlib.suppress(ValueError, OSError):  # a lower hard limit is in force
                resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        for name in setup["modules"]:
            importlib.import_module(name)
        _send(answers, {"value": {}})
        for line in sys.stdin:
            request = json.loads(line)
            # Should the survey itself have died, nobody else would stop a job that hangs.
            signal.alarm(int(request["timeout"]) + 10)
            _send(answers, _answer(request))
            signal.alarm(0)
    os._exit(0)


def _send(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    module, _, name = request["job"].partition(":")
    try:
        return {"value": getattr(importlib.import_module(module), name)(request["payload"])}
    except ModelcheckError as error:
        return {"error": str(error), "ours": isinstance(error, WorkerError)}
    except MemoryError:
        return {"error": "it needs more memory than a worker may have", "ours": True}
    except (Exception, SystemExit) as error:
        from modelcheck.dryrun.causes import describe

        return {"error": f"internal: {describe(error, None)}", "ours": True}


if __name__ == "__main__":
    main()
