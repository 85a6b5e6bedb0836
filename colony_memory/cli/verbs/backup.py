"""The verb ``backup``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from colony_memory.cli.options import CommonOptions, LabelOption

if TYPE_CHECKING:
    from colony_memory.app.save import Saved
    from colony_memory.capture import Capture
    from colony_memory.capture.folder import SecretsChoice
    from colony_memory.cli.memory import Opened
    from colony_memory.cli.output import Output

EXAMPLES = (
    "colony-memory backup ~/agent/memory",
    "colony-memory backup --label research --keep 10 MEMORY.md notes/",
    "colony-memory backup --git --secrets mask ~/agent/workspace",
    "colony-memory backup --note 'before the move' ~/agent/memory",
)


def run(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", hidden=True)],
    *,
    label: LabelOption = "default",
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", min=1, help="Then keep only the newest N snapshots of the label."),
    ] = None,
    secrets: Annotated[
        str,
        typer.Option(
            "--secrets",
            metavar="stop|warn|mask|allow",
            help="What to do about likely secrets: save nothing, warn, replace them, or not look for any.",
        ),
    ] = "stop",
    git: Annotated[
        bool, typer.Option("--git", help="Take git repositories along, each as a bundle beside its files.")
    ] = False,
    on_conflict: Annotated[
        str,
        typer.Option(
            "--on-conflict",
            metavar="raise|continue|merge",
            help="Where another client saves in between: store both and fail; the same, and let the newer one be the "
            "latest; or join both line by line.",
        ),
    ] = "raise",
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="What to say of it; 'list' and 'show' do.")
    ] = None,
    common: CommonOptions,
) -> int:
    """Save folders and files as a new snapshot.

    Each PATH is a folder or a file. One folder's files are saved under their path inside it; of several PATHs, each
    under its own name, such as notes/a.md. Every file is saved byte for byte; links are not followed, and what a
    .cmemignore excludes is not saved. Where nothing has changed, nothing is written. What cannot be read is left out
    and named, and the exit code is then 1.
    """
    from colony_memory.capture import masked_names
    from colony_memory.cli.errors import FAILED
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import backup_lines, diverged_line
    from colony_memory.cli.text import now_utc
    from colony_memory.exceptions import ColonyMemoryWarning

    with open_memory(common, making=True) as opened:
        saved = save(
            opened, paths, label=label, keep=keep, secrets=secrets, git=git, on_conflict=on_conflict, note=note
        )
        info, capture = saved.info, saved.capture
        if common.as_json:
            masked = masked_names(capture.documents)
            opened.output.answer_json({"snapshot": asdict(info), **_facts(capture), "masked": list(masked)})
        opened.output.report(*backup_lines(info, left_out=len(capture.left_out), now=now_utc()))
        if info.diverged_from:
            # Not as a line of the answer: it is told under --quiet too.
            warnings.warn(ColonyMemoryWarning(diverged_line(info, joined=on_conflict == "merge")), stacklevel=1)
        _tell(capture, opened.output, masked=secrets == "mask")
    return 0 if saved else FAILED


def save(
    opened: Opened,
    paths: list[str],
    *,
    label: str,
    keep: int | None,
    secrets: str,
    git: bool,
    on_conflict: str,
    note: str | None,
) -> Saved:
    """Make one backup by the options of this verb; a terminal shows what is under way, and nothing else is said.

    Raises:
        ValueError: An option or a path cannot be used.
        ColonyMemoryError: As :func:`colony_memory.save_folder`.
    """
    from colony_memory.app.save import read_for, save_capture
    from colony_memory.cli.memory import make_unchosen
    from colony_memory.cli.progress import show_reading

    if note == "":
        raise ValueError("an empty note: leave --note out")
    with show_reading(opened.output) as on_progress:
        # What the choice may be is for the library to say.
        choice = cast("SecretsChoice", secrets)
        capture = read_for(opened.memory, list(paths), git=git, secrets=choice, on_progress=on_progress)
    make_unchosen(opened.place)
    with opened.working("Saving to"):
        return save_capture(opened.memory, capture, label=label, prune_keep=keep, on_conflict=on_conflict, note=note)


def _facts(capture: Capture) -> dict[str, Any]:
    return {
        "left_out": [asdict(each) for each in capture.left_out],
        "ignored": list(capture.ignored),
        "notes": [asdict(each) for each in capture.notes],
        "secrets": [asdict(each) for each in capture.secrets],
    }


def _tell(capture: Capture, output: Output, *, masked: bool) -> None:
    from colony_memory.cli.text import count

    for note in capture.notes:
        output.note(f"{note.name}: {note.text}")
    if capture.ignored:
        output.note(f"{count(len(capture.ignored), 'name')} excluded by .cmemignore")
    if masked and capture.secrets:
        output.note(f"{count(len(capture.secrets), 'likely secret')} masked: {', '.join(map(str, capture.secrets))}")
    for each in capture.left_out:
        output.warn(f"left out: {each.name}: {each.reason}")
