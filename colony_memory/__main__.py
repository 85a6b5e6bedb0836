"""``python -m colony_memory`` and the script ``colony-memory``."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from colony_memory._version import __version__
from colony_memory.shell.cli.output import Output
from colony_memory.shell.words import errors

_YOUNG = 50_000  # objects before the first garbage collection: modules and classes alone exceed Python's 700


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default of this process's arguments, and return the exit code."""
    if argv is None:
        gc.set_threshold(_YOUNG)
    asked = errors.Asked(sys.argv[1:] if argv is None else argv)
    with errors.signals_raise():
        try:
            if list(asked.argv) == ["--version"]:  # without loading the parser
                Output().answer(f"{errors.PROGRAM} {__version__}")
                return 0
            from colony_memory.shell.cli.app import COMPLETION, VERBS

            verb, *rest = asked.argv or ("",)
            with errors.warnings_as_lines(asked):
                if COMPLETION not in os.environ and verb in VERBS:
                    from colony_memory.shell.cli.call import parse

                    call = parse(verb, rest)
                    if call is not None:
                        return call.run(asked)
                from colony_memory.shell.cli.program import run

                return run(asked)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - one line and a code, whatever it was
            if argv is None and isinstance(error, KeyboardInterrupt):
                errors.ignore_signals()
            code = errors.report_failure(error, asked)
            # To the hosts that call hooks, this one code means to stop the agent.
            return errors.FAILED if code == errors.USAGE and asked.by_host else code
        finally:
            if argv is None:
                gc.freeze()  # objects that end with the process need no further collection


if __name__ == "__main__":
    sys.exit(main())
