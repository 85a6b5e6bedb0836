import json
import subprocess
from pathlib import Path

import pytest

import colony_memory
from published.environments import CORE, HERE, PLUGIN, REPOSITORY, clean_environ, our_python, unpack

pytestmark = pytest.mark.network

# How many tests each published suite has: a suite that ran only in part has not passed.
TESTS = {CORE: 20, PLUGIN: 46}


def run_suite(directory):
    """Run the tests in ``directory``, which holds nothing else, against the package installed beside the plugin."""
    (directory / "none.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [str(our_python()), "-I", "-B", "-X", "utf8", str(HERE / "suite_runner.py"), str(directory)],
        cwd=directory,
        env=clean_environ(COLONY_SDK_NO_TOKEN_CACHE="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    last = done.stdout.rpartition("\n{")[2]
    assert last != done.stdout, f"the suite did not run to its end:\n{done.stdout}"
    return json.loads("{" + last), done.stdout


@pytest.mark.parametrize("release", [CORE, PLUGIN])
def test_published_suite_passes_unchanged(release, tmp_path):
    assert unpack(release, "tests", tmp_path)
    facts, output = run_suite(tmp_path)
    assert Path(facts["module"]).samefile(REPOSITORY / "colony_memory" / "__init__.py")
    assert facts["version"] == colony_memory.__version__
    assert facts["outcomes"] == {"passed": TESTS[release]}, output
    assert facts["exit_code"] == 0, output
