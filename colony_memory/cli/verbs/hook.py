"""The verbs that a host of agents calls: ``hook`` and ``mcp``."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._values import replace
from colony_memory.app.agents import AGENTS
from colony_memory.app.open import choose_place, refuse_vault_inside
from colony_memory.cli.memory import at_vault, format_of, make_unchosen, tell_elsewhere, trust_of
from colony_memory.cli.options import OPTIONS, CommonOptions, SavingOptions
from colony_memory.hooks.hosts import HOSTS
from colony_memory.words import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.app.open import Place
    from colony_memory.cli.host import Call
#: How each verb is used, as its help has it.
EXAMPLES = {
    "hook": (
        "colony-memory hook install claude-code",
        "colony-memory hook install claude-code ~/agent/memory",
        "colony-memory hook install codex --dry-run --keep 96 ~/agent/memory",
        "colony-memory hook uninstall claude-code",
        "colony-memory hook --format gemini ~/agent/memory",
    ),
    "mcp": (
        "colony-memory mcp ~/agent/memory",
        "colony-memory mcp --label research --keep 50 --allow-restore ~/agent/memory",
    ),
}


def run_hook(
    words: list[str],
    *,
    format: str = "claude-code",  # noqa: A002 - the word for it
    block: bool = False,
    timeout: str = "20s",
    settings: str | None = None,
    dry_run: bool = False,
    saving: SavingOptions,
    ping: str | None = None,
    on_error: str | None = None,
    common: CommonOptions,
) -> int:
    """'hook install HOST DIR' puts the calls into the settings of Claude Code (claude-code), Codex (codex) or Gemini
    CLI (gemini), with the options that are given; 'hook uninstall HOST' takes them out, of one DIR or of all. --dry-run
    shows the change. Everything else in that file stays as it is. Without DIR, the host's own memory is meant, as
    --agent finds it.

    'hook DIR' is what the host then calls, with JSON on stdin. When a session starts, the agent is told what the state
    of its memory is; at any other event DIR is saved as 'backup' does it. Nothing in that JSON says what is read or
    written. What fails is told in the answer and noted for 'status', and the exit code is 0: a host is never kept from
    going on without --block, and never held up for longer than --timeout.
    """
    from colony_memory.app.values import read_seconds
    from colony_memory.cli.host import Call, answer_host

    doing, host, folder = _read(words)
    call = Call(
        folder=folder or "",
        host=host or format,
        block=block,
        seconds=read_seconds("--timeout", timeout),
        saving=saving,
        ping=ping,
        on_error=on_error,
        common=common,
    )
    if doing == "install":
        return _install(call, settings, dry_run=dry_run)
    if doing == "uninstall":
        from colony_memory.hooks.settings import without_hooks

        of = None if folder is None else os.path.abspath(folder)  # noqa: PTH100
        return _change(call, settings, lambda text: without_hooks(text, of) if text.strip() else text, dry_run=dry_run)
    if settings is not None or dry_run:
        raise ValueError("--settings and --dry-run are for 'hook install' and 'hook uninstall'")
    return answer_host(call)


def _read(words: Sequence[str]) -> tuple[str, str, str | None]:
    """The deed, empty where a host calls; the host; the folder."""
    from colony_memory.cli.app import VERBS

    first, *others = words
    if "" in words:
        raise ValueError("an empty path")
    if first not in ("install", "uninstall"):
        if others:
            raise ValueError(f"give one DIR, or 'install HOST DIR', or 'uninstall HOST': {others[0]!r} is too much")
        if first == os.path.basename(first) and (first in (*VERBS, "remove") or not os.path.isdir(first)):  # noqa: PTH112, PTH119
            raise ValueError(
                f"{first!r} is none of install, uninstall and a folder; a folder of that name is ./{first}"
            )
        return "", "", first
    if not others or others[0] not in HOSTS:
        named = f", not {others[0]!r}" if others else ""
        raise ValueError(f"'hook {first}' takes a host: {', '.join(HOSTS)}{named}")
    if len(others) > 2 or (first == "install" and len(others) < 2):
        is_known = first == "uninstall" or others[0] in AGENTS
        why = "" if is_known else f", as nothing is known of the memory of {HOSTS[others[0]].title}"
        raise ValueError(f"'hook {first} {others[0]}' takes one DIR{why}")
    return first, others[0], others[1] if len(others) > 1 else None


def _install(call: Call, settings: str | None, *, dry_run: bool) -> int:
    from colony_memory.client import ColonyMemory
    from colony_memory.hooks.install import in_a_cache
    from colony_memory.hooks.settings import Handler, other_folders, with_hooks
    from colony_memory.schedule.notify import Notifier

    # What every call would fail of is refused before.
    call.saving.parsed(call.common.agent)
    Notifier(label=call.label, ping=call.ping, on_error=call.on_error)
    host, place = HOSTS[call.host], choose_place(call.common.vault)
    folder = os.path.abspath(call.folder)  # noqa: PTH100 - a link stays the way that was meant
    if not os.path.isdir(folder):  # noqa: PTH112
        raise ValueError(f"{folder!r} is no folder")
    try:
        folder.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{folder!r} has a name that settings cannot hold: it is not UTF-8 text") from error
    tell_elsewhere(call.common.agent, [folder], call.common.output)
    refuse_vault_inside(ColonyMemory(backend=place.backend, **trust_of(call.common, asks=False)), [folder])
    if place.chosen:
        place.require()
    # The host is to end it only where it does not end itself.
    handler = Handler(command_words(call, folder, place), math.ceil(call.seconds) + 5)

    def edit(text: str) -> str:
        others = other_folders(text, handler)
        if others:
            # In turns each would be the latest, and a restore would give either.
            raise ValueError(f"{others[0]!r} is saved under label {call.label} there already: give another --label")
        return with_hooks(text, host, handler)

    code = _change(call, settings, edit, dry_run=dry_run, installs=True)
    if not dry_run:
        make_unchosen(place)
        call.common.output.note(host.afterwards)
        call.common.output.note(f"saving to {place.title}")
    if in_a_cache():
        call.common.output.warn(
            "this program lies in a cache, and the hooks stop working when that is emptied: install it"
        )
    return code


def _change(
    call: Call, settings: str | None, edit: Callable[[str], str], *, dry_run: bool, installs: bool = False
) -> int:
    from colony_memory.hooks.install import change_settings, settings_path, switched_off
    from colony_memory.hooks.settings import built_on, commands

    output, host = call.common.output, HOSTS[call.host]
    change = change_settings(settings_path(host) if settings is None else Path(settings), edit)
    if not dry_run:
        change.make()
    off = switched_off(change.path, host)
    if off and installs:
        output.warn(f"warning: {off} switches hooks off: until that is changed, nothing is saved by them")
    for command in commands(change.after, built_on):
        output.warn(f"left as it is, since it does more than a hook of this program: {shown(command)}")
    if dry_run and not output.as_json:
        output.answer(change.difference or f"nothing would change in {change.path}\n")
        return 0
    done = f"{'' if installs else 'un'}installed in" if change else "nothing to change in"
    document = {"settings": str(change.path), "changed": bool(change), "dry_run": dry_run}
    output.done({**document, "difference": change.difference}, f"{done} {change.path}")
    return 0


def command_words(call: Call, folder: str, place: Place) -> tuple[str, ...]:
    """The command that the host is to run: with the place and the label that are meant now, whatever is set then."""
    from colony_memory.app.open import settled, settled_identities, settled_recipients
    from colony_memory.app.options import settled_command
    from colony_memory.hooks.install import program_words

    saving, common, agent = call.saving, call.common, call.common.agent
    url = place.url if "://" in place.url or place.comes_with_the_account else os.path.abspath(place.url)  # noqa: PTH100
    words = [*program_words(), "hook", "--format", call.host, "--vault", url, "--label", call.label]
    words += ["--timeout", f"{math.ceil(call.seconds)}s"]
    settle: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(("config", "key_file", "witness", "passphrase_file"), settled),
        **dict.fromkeys(("before", "on_error"), settled_command),
        "encrypt_to": settled_recipients,
        "identity": settled_identities,
        "kinds": lambda kinds: [",".join(kinds)] if agent else [],
        # The host's own rules come with it, those of today.
        "exclude": lambda globs: globs[len(AGENTS[agent].exclude(common.kinds or ())) if agent else 0 :],
        # The rules of the configuration file are read from there each time.
        "keep": lambda keep: keep if isinstance(keep, int) else None,
    }
    given = {**vars(common), **vars(saving), "ping": call.ping, "on_error": call.on_error, "block": call.block}
    usual = {**vars(CommonOptions()), **vars(SavingOptions())}
    for name, value in given.items():
        if name in ("vault", "label", "as_json", "quiet", "set_name", "note", "tag") or value in (
            None,
            usual.get(name),
        ):
            continue
        flag, said = OPTIONS[name][0].split()[0], settle.get(name, lambda value: value)(value)
        if isinstance(said, bool):
            words += [flag] if said else []
        elif said is not None:
            words += [f"{flag}={each}" for each in (said if isinstance(said, (list, tuple)) else [said])]
    return (*words, folder)


def run_mcp(
    directory: str,
    *,
    saving: SavingOptions,
    allow_restore: bool = False,
    restore_unasked: bool = False,
    format: str | None = None,  # noqa: A002 - the word for it
    common: CommonOptions,
) -> int:
    """DIR is the folder; without it, --agent says whose memory it is. The host gets tools to save it, to list, show,
    verify, compare and look back, and to tell whether it is protected; all of them are about this folder, this label
    and this vault, and none takes a path. What is saved is what 'backup' with these options would save.

    A host starts this command itself and speaks to it on its input and output.
    """
    from colony_memory.mcp import require_mcp

    if restore_unasked and not allow_restore:
        raise ValueError("--restore-unasked is for --allow-restore: give both, or neither")
    require_mcp()
    from colony_memory.mcp.served import Served, real_folder
    from colony_memory.mcp.server import MemoryServer, serve_stdio

    with at_vault(common.vault, replace(common, quiet=True).output, making=True) as place:
        served = Served(
            place,
            real_folder(directory),
            saving.parsed(common.agent),
            trust=trust_of(common),
            wire=format_of(format),
            restore="unasked" if restore_unasked else "asked" if allow_restore else "no",
        )
        if sys.stdin is not None and sys.stdin.isatty():
            common.output.note("waiting for a host on standard input, which a terminal is not; Ctrl-C to stop")
        serve_stdio(MemoryServer(served))
    return 0
