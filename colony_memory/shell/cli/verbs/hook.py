"""The verb ``hook``: its installation, and its call by a host: read the JSON, act in time, and answer."""

from __future__ import annotations

import math
import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._os.paths import is_empty
from colony_memory._values import Record, asdict, replace
from colony_memory.exceptions import ConflictDetected, PruneIncomplete, SecretsFound, VaultUnavailable
from colony_memory.schedule.last_run import last_run_path, read_runs, run_of
from colony_memory.shell.app.agents import AGENTS
from colony_memory.shell.app.config import read_seconds, settled_command
from colony_memory.shell.app.open import Place, choose_place, refuse_vault_inside
from colony_memory.shell.cli import output as outputs
from colony_memory.shell.cli.app import OPTIONS, VERBS, CommonOptions, SavingOptions
from colony_memory.shell.cli.call import make_unchosen, open_memory, trust_of
from colony_memory.shell.hooks import hosts
from colony_memory.shell.hooks.hosts import HOSTS
from colony_memory.shell.words import now_utc, shown
from colony_memory.shell.words.errors import NO_VAULT, USAGE, Failure, command, cut, describe, exit_code, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.shell.app.save import Saved


def run_hook(
    words: list[str],
    *,
    format: str = "claude-code",  # noqa: A002 - the word for it
    timeout: str = "20s",
    settings: str | None = None,
    dry_run: bool = False,
    saving: SavingOptions,
    common: CommonOptions,
) -> int:
    """'hook install HOST DIR' puts the calls into the settings of Claude Code (claude-code), Codex (codex) or Gemini
    CLI (gemini), with the options that are given; 'hook uninstall HOST' takes them out, of one DIR or of all. --dry-run
    shows the change. Everything else in that file stays as it is. Without DIR, the host's own memory is meant, as
    --agent finds it.

    'hook DIR' is what the host then calls, with JSON on stdin. When a session starts, the agent is told what the state
    of its memory is; at any other event DIR is saved as 'backup' does it. Nothing in that JSON says what is read or
    written. What fails is told in the answer and noted for 'status', and the exit code is 0: a host is never kept from
    going on, and never held up for longer than --timeout.

    colony-memory hook install claude-code
    colony-memory hook install claude-code ~/agent/memory
    colony-memory hook install codex --dry-run --keep 96 ~/agent/memory
    colony-memory hook uninstall claude-code
    colony-memory hook --format gemini ~/agent/memory
    """
    action, host, folder = _parse_words(words)
    call = Call(folder or "", host or format, read_seconds("--timeout", timeout), saving, common)
    if action == "install":
        return _install(call, settings, dry_run=dry_run)
    if action == "uninstall":
        from colony_memory.shell.hooks.install import without_hooks

        only = None if folder is None else os.path.abspath(folder)  # noqa: PTH100
        return _change(call, settings, partial(without_hooks, folder=only), dry_run=dry_run)
    if settings is not None or dry_run:
        raise ValueError("--settings and --dry-run are for 'hook install' and 'hook uninstall'")
    return answer_host(call)


def _parse_words(words: Sequence[str]) -> tuple[str, str, str | None]:
    """The action (empty if a host calls), the host, and the folder."""
    first, *others = words
    if "" in words:
        raise ValueError("an empty path")
    if first in ("install", "uninstall"):
        host, *folders = others or [""]
        if host not in HOSTS:
            raise ValueError(f"'hook {first}' takes a host: {', '.join(HOSTS)}{f', not {host!r}' if host else ''}")
        if len(folders) > 1 or (first == "install" and not folders):
            is_known = first == "uninstall" or host in AGENTS
            why = "" if is_known else f", as nothing is known of the memory of {HOSTS[host].title}"
            raise ValueError(f"'hook {first} {host}' takes one DIR{why}")
        return first, host, folders[0] if folders else None
    if others:
        raise ValueError(f"give a DIR, 'install HOST DIR' or 'uninstall HOST': {others[0]!r} is one argument too many")
    if first == os.path.basename(first) and (first in (*VERBS, "remove") or not os.path.isdir(first)):  # noqa: PTH112, PTH119
        raise ValueError(f"{first!r} is neither install, uninstall nor a folder; a folder of that name is ./{first}")
    return "", "", first


def _install(call: Call, settings: str | None, *, dry_run: bool) -> int:
    from colony_memory.client import ColonyMemory
    from colony_memory.shell.hooks.install import in_a_cache, with_hooks

    output = call.common.output
    # Errors that every call would end with are raised now.
    call.saving.parsed(call.common.agent)
    host, place = HOSTS[call.host], choose_place(call.common.vault)
    folder = os.path.abspath(call.folder)  # noqa: PTH100 - a link stays the path that was meant
    if not os.path.isdir(folder):  # noqa: PTH112
        raise ValueError(f"{folder!r} is not a folder")
    try:
        folder.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{folder!r} has a name that settings cannot hold: it is not UTF-8 text") from error
    refuse_vault_inside(ColonyMemory(backend=place.backend, **trust_of(call.common, asks=False)), [folder])
    if place.chosen:
        place.require()
    words = command_words(call, folder, place)
    # The host is to end it only if it fails to end itself.
    edit = partial(with_hooks, host=host, words=words, seconds=math.ceil(call.seconds) + 5)
    code = _change(call, settings, edit, dry_run=dry_run, installs=True)
    if not dry_run:
        make_unchosen(place)
        output.note(host.afterwards)
        output.note(f"saving to {place.title}")
    if in_a_cache():
        output.warn("this program runs from a cache, and its hooks fail once that is emptied: install it")
    return code


def _change(
    call: Call, settings: str | None, edit: Callable[[str], str], *, dry_run: bool, installs: bool = False
) -> int:
    from colony_memory.shell.hooks.install import change_settings, commands_built_on, settings_path, switched_off

    output, host = call.common.output, HOSTS[call.host]
    change = change_settings(settings_path(host) if settings is None else Path(settings), edit)
    if not dry_run:
        change.make()
    off = switched_off(change.path, host)
    if off and installs:
        output.warn(f"warning: {off} switches hooks off: until that is changed, they save nothing")
    for entry in commands_built_on(change.after):
        output.warn(f"left as it is, since it does more than a hook of this program: {shown(entry)}")
    if dry_run and not output.as_json:
        output.answer(change.difference or f"nothing would change in {change.path}\n")
        return 0
    done = f"{'' if installs else 'un'}installed in" if change else "nothing to change in"
    document = {"settings": str(change.path), "changed": bool(change), "dry_run": dry_run}
    output.done({**document, "difference": change.difference}, f"{done} {change.path}")
    return 0


def command_words(call: Call, folder: str, place: Place) -> tuple[str, ...]:
    """The command for the host to run: with the vault and the label of now, whatever is set then."""
    from colony_memory.shell.app.keys import settled, settled_identities, settled_recipients
    from colony_memory.shell.hooks.install import program_words

    saving, common, agent = call.saving, call.common, call.common.agent
    url = place.url if "://" in place.url or place.comes_with_the_account else os.path.abspath(place.url)  # noqa: PTH100
    words = [*program_words(), "hook", "--format", call.host, "--vault", url, "--label", call.saving.label]
    words += ["--timeout", f"{math.ceil(call.seconds)}s"]
    converters: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(("config", "key_file", "witness", "passphrase_file"), settled),
        "before": settled_command,
        "encrypt_to": settled_recipients,
        "identity": settled_identities,
        "kinds": lambda kinds: [",".join(kinds)] if agent else [],
        # --agent adds the host's own rules itself, those current at that time.
        "exclude": lambda globs: globs[len(AGENTS[agent].exclude(common.kinds or ())) if agent else 0 :],
    }
    given = {**vars(common), **vars(saving)}
    usual = {**vars(CommonOptions()), **vars(SavingOptions())}
    for name, value in given.items():
        if name in ("vault", "label", "as_json", "quiet", "note", "tag") or value in (None, usual.get(name)):
            continue
        flag, converted = OPTIONS[name][0].split()[0], converters.get(name, lambda value: value)(value)
        if isinstance(converted, bool):
            words += [flag] if converted else []
        elif converted is not None:
            words += [f"{flag}={item}" for item in (converted if isinstance(converted, (list, tuple)) else [converted])]
    return (*words, folder)


#: Seconds to wait for the host's input. Hosts have it ready, and close stdin after it.
_LISTENING = 3.0
#: Seconds to wait for another backup or restore of the same folder.
_PATIENCE = 5.0
#: Errors that a backup meets again, until a person has decided something.
_LASTING = ("SecretsFound", "QuotaExceeded", "VaultMissing", "VaultDenied")
#: Seconds to record that time ran out.
_LONGEST_NOTE = 2.0


class Call(Record):
    """One call of ``hook``. Its work for an event, done in a thread, returns words for the agent and for the person."""

    folder: str
    host: str
    seconds: float  # how long the host may be held up
    saving: SavingOptions
    common: CommonOptions
    deadline: float = 0.0
    saves: bool = False  # the event is one to save at
    state: Path | None = None  # where the outcome of that is recorded

    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def check(self) -> tuple[str, str]:
        """Compare the memory with what is saved of it."""
        label = self.saving.label
        with hosts.heard() as messages, open_memory(replace(self.common, quiet=True)) as opened:
            summary = hosts.stand_of(
                opened.memory,
                self.folder,
                label=label,
                exclude=list(self.saving.exclude or ()),
                agent=self.common.agent,
                way_back=partial(command, "restore", label=label, given=asdict(self.common)),
                log=read_runs(opened.place.url, label),
            )
        return summary, shown("; ".join(messages))

    def save(self) -> tuple[str, str]:
        """Save the memory, and record the outcome."""
        self.state = last_run_path(choose_place(self.common.vault).url, self.saving.label)
        with hosts.heard() as messages:
            try:
                run = run_of(now_utc(), self._save())
            except Exception as error:
                hosts.note_run(self.state, run_of(now_utc(), None, error))
                raise
            hosts.note_run(self.state, run)
        if not run.ok:
            messages.insert(0, f"not all of the memory is saved: {run.message}")
        return "", shown("; ".join(messages))

    def _save(self) -> Saved | None:
        from colony_memory.shell.cli.verbs import backup

        label = self.saving.label
        with open_memory(replace(self.common, quiet=True), making=True) as opened:
            # Only if there never was any. A memory that vanished is an error, and its snapshots stay.
            if is_empty(self.folder) and (not opened.place.exists() or opened.memory.latest(label=label) is None):
                return None
            options, patience = self.saving.parsed(self.common.agent), min(_PATIENCE, self.seconds_left())
            return backup.save(opened, [self.folder], options, unattended=True, patience=patience)

    def failed(self, error: BaseException | None) -> tuple[str, str]:
        """The answer after an error or at the deadline; the latter is recorded here, as its thread no longer can."""
        in_time = error is not None
        if error is None:
            error = VaultUnavailable(f"not done within {self.seconds:g} s, the longest that the host may be held up")
        reason = shown(describe(error))
        if not self.saves:
            summary = hosts.unknown(self.folder, self.saving.label, kind_of(error))
            return summary, f"the memory could not be looked at: {reason}"
        if self.state is not None and not in_time:
            hosts.within(_LONGEST_NOTE, partial(hosts.note_run, self.state, run_of(now_utc(), None, error)))
        if isinstance(error, PruneIncomplete) or (isinstance(error, ConflictDetected) and error.snapshot_id):
            return "", f"the memory is saved, but: {reason}"
        reason = shown(cut(error.message)) if isinstance(error, SecretsFound) else reason
        verb = "restore" if is_empty(self.folder) and exit_code(error) != NO_VAULT else "backup"
        advice = f"; try: {command(verb, self.folder, label=self.saving.label, given=asdict(self.common))}"
        fails_again = verb == "backup" and (exit_code(error) == USAGE or kind_of(error) in _LASTING)
        return "", f"the memory was not saved: {reason}{'' if fails_again else advice}"


def answer_host(call: Call) -> int:
    """Handle an event of a host, and answer it. The exit code is 0 whatever happened."""
    call.deadline = time.monotonic() + call.seconds
    output, host = call.common.output, HOSTS[call.host]
    # At a terminal there is no host to send an event.
    patience = 0.0 if os.isatty(0) else min(_LISTENING, call.seconds / 2)
    event, unread = hosts.read_event(hosts.read_input(0, limit=hosts.LONGEST_INPUT, patience=patience))
    call.saves = event not in host.tells
    if hasattr(signal, "SIGHUP"):  # closing the terminal with the host must not end the last backup
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    done, error = hosts.within(call.seconds_left(), call.save if call.saves else call.check)
    context, problem = done or call.failed(error)
    not_understood = unread and f"what {host.title} said could not be understood, {unread}"
    problem = "; ".join(filter(None, [problem, not_understood]))
    if problem:
        output.warn(problem if output.as_json else f"warning: {problem}")
    # A host that does not wait may be gone by now.
    with suppress(Failure):
        outputs.Output().answer(hosts.answer(host, event, context, problem))
    if done is None and error is None:
        outputs.leave(0)
    return 0
