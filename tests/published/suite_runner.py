"""Runs a test suite inside an environment of its own and prints what came of it, and which package it met.

    python suite_runner.py DIRECTORY

The last line of its output is JSON: `exit_code`, `outcomes` (a count for each), `module` and `version`.
"""

import collections
import json
import sys

import pytest


class Tally:
    def __init__(self):
        self.outcomes = collections.Counter()

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1


def main(directory):
    tally = Tally()
    options = ["-p", "no:cacheprovider", "-q", f"--rootdir={directory}", "-c", f"{directory}/none.ini"]
    exit_code = pytest.main([*options, directory], plugins=[tally])
    import colony_memory

    facts = {
        "exit_code": int(exit_code),
        "outcomes": tally.outcomes,
        "module": colony_memory.__file__,
        "version": colony_memory.__version__,
    }
    print("\n" + json.dumps(facts))


if __name__ == "__main__":
    main(sys.argv[1])
