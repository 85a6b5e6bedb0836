"""The verbs about a whole vault, its keys, and snapshots in files of their own."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory import transfer
from colony_memory._os.machine import config_directory
from colony_memory._values import asdict
from colony_memory.client import ColonyMemory
from colony_memory.shell.app.config import SETTINGS, Setting, config_path, effective, load_config
from colony_memory.shell.app.keys import settled
from colony_memory.shell.app.open import choose_place, identify_vault
from colony_memory.shell.app.pick import find_id, made_at, may_name_a_snapshot, nothing_saved, stamp
from colony_memory.shell.cli.app import CURRENT, CommonOptions, parameters_of
from colony_memory.shell.cli.call import OpenVault, at_vault, format_of, naming_the_vault, open_memory, trust_of
from colony_memory.shell.cli.output import Output
from colony_memory.shell.cli.tables import Column, draw
from colony_memory.shell.words import age, count, now_utc, shown, size, stored
from colony_memory.shell.words.errors import FAILED, NOT_PROVEN, Failure
from colony_memory.trust import older_than_signing

if TYPE_CHECKING:
    from colony_memory.reports import VerifyReport

#: The head of each column is the name of its field.
_CHECKS = (
    Column("id"),
    Column("manifest"),
    Column("parts", spare=1),
    Column("digest"),
    Column("signature"),
    Column("trust", spare=2),
    Column("catalog", spare=4),
    Column("chain", spare=3),
)


def run_init(
    url: str | None = None,
    *,
    vault: str | None = None,
    format: str | None = None,  # noqa: A002 - the word for it
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """URL is a directory, by default the vault that every other verb would use, or a place in an object store, such as
    s3://bucket/prefix; the bucket itself has to be there. The vault is made where it is not there yet, and marked as
    one. From then on, where that mark is missing, as while a disk is not mounted, there is no vault, and every verb
    says so with exit code 5. A vault that is there already stays as it is.

    With --format, backups there are written in that format from now on, unless they have a --format of their own. By
    default a new vault is for format 2, or for 1 where the extra zstd is missing.

    colony-memory init /mnt/nas/vault
    colony-memory init file:///mnt/nas/vault
    colony-memory init
    """
    from colony_memory._format.v2.zstd import WANTED, is_installed

    chosen = url if url is not None else vault if vault is not None else load_config().settings.get("vault")
    place, output = choose_place(chosen), Output(as_json, quiet)
    made = place.make(format=format_of(format))
    place.require()
    place.make_known()
    outcome = f"{place.title} was there already{f', and is for format {format} now' if format else ''}"
    if made:
        outcome = f"made {place.title}"
    elif place.comes_with_the_account:
        outcome = f"{place.title} comes with the account; there is nothing to make"
    output.done({"vault": place.url, "made": made, "format": getattr(place.backend, "snapshot_format", 1)}, outcome)
    if made and format is None and not is_installed():
        output.note(f"it is for format 1; format 2 takes less room: install {WANTED}, then run init with --format 2")


def run_export(snapshot: str, file: str, *, label: str = "default", force: bool = False, common: CommonOptions) -> None:
    """ID is a snapshot as 'show' takes it. FILE is made for its owner alone and holds the whole memory, encrypted only
    where it is so in the vault; - writes to the standard output. 'verify FILE' checks it without a vault, 'import FILE'
    puts it into one.

    colony-memory export latest research.json --label research
    colony-memory export 20261101 - | ssh other-host colony-memory import -
    """
    if not file:
        raise ValueError("an empty path")
    if file == "-" and common.as_json:
        raise ValueError("--json and - would both write to the standard output")
    with open_memory(common) as opened:
        with opened.working():
            snapshot_id = find_id(opened.memory, snapshot, label=label)
            exported = opened.memory.export_snapshot(label=label, snapshot_id=snapshot_id)
            if file != "-":
                transfer.save_export(exported, file, overwrite=force)
        info, made = exported.info, made_at(exported.info)
        outcome = (
            f"exported snapshot {info.snapshot_id} of label {info.label}, made {stamp(made)} "
            f"({age(made, now_utc())}), {stored(info)}, to {'the standard output' if file == '-' else file}"
        )
        if file == "-":
            opened.output.answer(transfer.write_export(exported.label, exported.snapshot_id, exported.files))
            opened.output.note(outcome)
        else:
            opened.output.done({"snapshot": asdict(info), "file": file}, outcome)


def _read_file(path: str) -> transfer.Export:
    """The export in a file, or in the standard input for ``-``."""
    if path != "-":
        if "\0" not in path and not Path(path).exists():
            raise ValueError(f"{path!r}: no such file")
        return transfer.load_export(path)
    if sys.stdin is None:
        raise Failure("there is no standard input to read", code=FAILED)
    try:
        data = sys.stdin.buffer.read(transfer.MAX_EXPORT_BYTES + 1)
    except OSError as error:
        raise Failure(f"the standard input cannot be read: {error.strerror}", code=FAILED) from error
    return transfer.parse_export(data, name="the standard input")


def run_verify(snapshot: str | None = None, *, label: str | None = None, common: CommonOptions) -> int:
    """ID is a snapshot as 'show' takes it, FILE one that 'export' wrote, which needs no vault; - is the standard input.
    Without one, every snapshot of the label is read, or of all labels. What could not be checked is never called ok.
    The exit code is 4 if something fails verification, and 1 if nothing does but not everything could be checked: some
    text is encrypted, which no identity opens here, or a snapshot is older than signing.

    colony-memory verify
    colony-memory verify --label research latest
    colony-memory verify --trust did:key:z6Mk... ./research.json
    """
    from colony_memory.capture.index import disprove

    if snapshot is not None and (snapshot == "-" or not may_name_a_snapshot(snapshot)):
        vault = transfer.ExportVault(_read_file(snapshot))  # no other vault is opened
        memory = ColonyMemory(backend=vault, **trust_of(common))
        reports = [memory.verify(label=vault.label, snapshot_id=vault.snapshot_id)]
    else:
        chosen = label or "default"
        with open_memory(common) as opened:
            memory = opened.memory
            with opened.working("Verifying"):
                if snapshot is not None:
                    reports = [memory.verify(label=chosen, snapshot_id=find_id(memory, snapshot, label=chosen))]
                else:
                    labels = [label] if label else [entry.label for entry in memory.inspect().labels]
                    reports = [memory.verify(label=name) for name in labels]
                for report in reports:
                    if not report and not report.limited:
                        disprove(identify_vault(memory), report.label)
            if not any(report.snapshots or report.problem for report in reports):
                raise nothing_saved(memory, chosen)
    good = all(reports)
    document = {"ok": good, "labels": [{"ok": bool(report), **asdict(report)} for report in reports]}
    if common.as_json or not (common.quiet and good):
        common.output.show(document, "\n\n".join(map(_verify_text, reports)))
    return 0 if good else FAILED if all(report or report.limited for report in reports) else NOT_PROVEN


def _verify_text(report: VerifyReport) -> str:
    """The checks of each snapshot, and every problem; without what only signatures prove if nobody signs."""
    states = {(check.signature, check.trust, check.catalog) for check in report.snapshots}
    expected = {("missing", "unchecked", "ok"), ("missing", "unchecked", "unchecked")}
    unsigned = bool(report) and (report.pointer, report.rollback) == ("unchecked", "unchecked") and states <= expected
    columns = _CHECKS[:4] if unsigned else _CHECKS
    rows = [
        (shown(check.snapshot_id), *(getattr(check, col.head) for col in columns[1:])) for check in report.snapshots
    ]
    problems = [check.problem for check in report.snapshots if check.problem and not check.unsigned]
    problems += [report.problem] if report.problem else []
    problems += [f"snapshot {snapshot_id} was listed and is gone" for snapshot_id in report.removed]
    known = {check.snapshot_id for check in report.snapshots if check.problem}
    problems += [f"snapshot {forged} is not by a trusted issuer" for forged in report.forged if forged not in known]
    problems += [older_than_signing(report.label, report.unsigned)] if report.unsigned else []
    good, sealed = sum(map(bool, report.snapshots)), sum(bool(check.sealed) for check in report.snapshots)
    total = f"label {report.label}: {good} of {count(len(report.snapshots), 'snapshot')} good, " + (
        "none signed" if unsigned else f"pointer {report.pointer}, rollback {report.rollback}"
    )
    if sealed:
        which = "it" if len(report.snapshots) == 1 else count(sealed, "snapshot")
        total += f"; the content of {which} is encrypted and was not checked: no identity opens it here"
    lines = [*(f"problem  {problem}" for problem in dict.fromkeys(problems)), total]
    return "\n".join([draw(columns, rows), *map(shown, lines)])


def run_import(file: str, *, label: str | None = None, dry_run: bool = False, common: CommonOptions) -> None:
    """FILE is what 'export' wrote; - reads the standard input. The snapshot keeps its id, its label and its signature.
    It is checked first, and refused as 'restore' would refuse it. It becomes the latest if it is newer than that.

    colony-memory import research.json
    colony-memory import --vault file:///mnt/usb/vault research.json
    """
    if not file:
        raise ValueError("an empty path")
    exported = _read_file(file)
    with open_memory(common) as opened:
        with opened.working("Importing into"):
            info = opened.memory.import_snapshot(exported, label=label, dry_run=dry_run)
        named = f"snapshot {info.snapshot_id} of label {info.label}"
        outcome = f"imported {named}, {stored(info)}"
        if info.reused:
            outcome = f"{named} was there already; nothing written"
        elif dry_run:
            outcome = f"would import {named}, {stored(info)}; nothing written"
        latest = f"it is {'' if info.head else 'not '}the latest of its label"
        lines = [outcome] if dry_run and not info.reused else [outcome, latest]
        opened.output.done({"snapshot": asdict(info), "dry_run": dry_run}, *lines, dry_run=dry_run)


def run_copy(
    *,
    source: str | None = None,
    target: str | None = None,
    label: list[str] | None = None,
    dry_run: bool = False,
    common: CommonOptions,
) -> int:
    """What is there already is not written again, and nothing is removed: a copy that was stopped goes on when it is
    made again. Each snapshot is read back. What is damaged or not trusted is left out and named, and the exit code is
    then 1. With --key-file the copy is signed there too; a --witness is that of the vault to copy from.

    colony-memory copy --from colony: --to file:///mnt/usb/vault
    colony-memory copy --to ~/second-vault --label research
    """
    if source is None and target is None:
        raise ValueError("give --from, --to, or both")
    output, trust = common.output, trust_of(common)
    # A witness is for one vault: another's pointers would look like a rollback.
    target_trust = {name: value for name, value in trust.items() if name != "witness"}
    with ExitStack() as stack:
        src = stack.enter_context(at_vault(common.vault if source is None else source, output))
        dst = stack.enter_context(at_vault(common.vault if target is None else target, output))
        if src.identity == dst.identity:
            raise ValueError("--from and --to are the same vault")
        stack.enter_context(naming_the_vault(src))
        opened = OpenVault(ColonyMemory(backend=src.backend, **trust), src, output)
        with output.working(f"Copying from {src.title} to {dst.title}", opened.progress):
            report = transfer.copy(
                opened.memory,
                ColonyMemory(backend=dst.backend, **target_trust),
                labels=label,
                progress=opened.progress.steps("snapshot"),
                dry_run=dry_run,
            )
        done, total = "would copy" if dry_run else "copied", sum(info.stored_bytes for info in report.copied)
        outcome = f"{done} {count(len(report.copied), 'snapshot')} to {dst.title}{f', {size(total)}' if total else ''}"
        outcome += f"; {len(report.already)} there already"
        outcome += f", {len(report.left_out)} left out" if report.left_out else ""
        latest = [f"latest of label {label}: {snapshot_id}" for label, snapshot_id in sorted(report.latest.items())]
        document = {
            "from": src.url,
            "to": dst.url,
            "copied": [asdict(info) for info in report.copied],
            "already": [asdict(info) for info in report.already],
            "left_out": [{"name": name, "reason": reason} for name, reason in report.left_out.items()],
            "latest": dict(report.latest),
            "dry_run": dry_run,
        }
        output.done(document, outcome, *(["nothing written"] if dry_run else latest), dry_run=dry_run)
        for name, reason in report.left_out.items():
            output.warn(f"left out: {name}: {reason}")
    return FAILED if report.left_out else 0


def run_keygen(file: str | None = None, *, age: bool = False, as_json: bool = False, quiet: bool = False) -> None:
    """FILE is by default signing.pem in the user's configuration directory, with --age identity.txt. What is there
    already is never overwritten.

    colony-memory keygen
    colony-memory keygen ~/agent/signing.pem
    colony-memory keygen --age ~/agent/identity.txt
    """
    default_name = "identity.txt" if age else "signing.pem"
    try:
        key_path = config_directory() / default_name if file is None else Path(settled(file))
    except OSError as error:
        raise ValueError(f"{error}, or name a file") from error
    path = shlex.quote(str(key_path.absolute()))
    if age:
        from colony_memory.encryption import make_identity

        field, key = "recipient", make_identity(key_path)
        uses = {"Encrypt from now on": f"ENCRYPT_TO={key}", "Read what is encrypted": f"IDENTITY={path}"}
        loss = "what is encrypted cannot be read again, by anybody."
    else:
        from colony_memory.signing import Ed25519Signer

        signer = Ed25519Signer.generate()
        signer.save(key_path)
        field, key = "did_key", signer.did_key
        uses = {"Sign from now on": f"KEY_FILE={path}", "Trust it where you only read": f"TRUST={key}"}
        loss = "nothing new can be signed. Nobody can make it again."
    lines = [f"key file    {key_path}", f"public key  {key}", ""]
    for use, setting in uses.items():
        lines += [f"{use}:", f"  export COLONY_MEMORY_{setting}"]
    lines.append(f"Keep a copy of the key file off this host: without it {loss}")
    Output(as_json, quiet).done({"key_file": str(key_path), field: key}, *lines)


def run_report(
    *, html: str, label: str | None = None, quick: bool = False, force: bool = False, common: CommonOptions
) -> None:
    """Tells if the memory is protected, how many more backups fit, every restore point, what became of each document,
    and what holds. Every snapshot is read. The page needs nothing else and asks nothing of a network. It holds text of
    the memory, so FILE is made for its owner alone.

    colony-memory report --html report.html
    colony-memory report --html report.html --quick
    """
    from colony_memory._ownfiles import save_own
    from colony_memory.shell.cli.verbs.status import next_backups, status_document
    from colony_memory.shell.report import look_over, render

    if html == "-" and common.as_json:
        raise ValueError("--json and - would both write to the standard output")
    now = now_utc()
    with open_memory(common) as opened:
        url, output = opened.place.url, opened.output
        with opened.working():
            checked, labels = look_over(opened.memory, url=url, label=label, quick=quick, now=now)
        given = {**asdict(common), "folders": checked.folders}
        status = status_document(checked, url=url, max_age=None, given=given)
        page = render(labels, status=status, now=now, next_backups=next_backups(checked.found))
        if html == "-":
            output.answer(page)
            return
        save_own(html, page.encode("utf-8"), "the page", overwrite=force)
        number = sum(len(row["snapshots"]) for row in labels)
        document = {"file": html, "snapshot_count": number, "state": checked.verdict.state}
        output.done(document, f"the report on {count(number, 'snapshot')} is in {html}")


def run_config(*, path: bool = False, common: CommonOptions) -> None:
    """Options come before environment variables, and those before the file. The file must belong to you or root, and
    nobody else may write to it. It is never looked for in the working directory or in a folder that is saved.

    colony-memory config
    colony-memory config --json
    """
    call = CURRENT.get()
    explicit, named_file = ({}, None) if call is None else (call.settings(), call.named_file)
    if path:
        place = config_path(named_file)
        common.output.show({"path": str(place), "exists": place.exists()}, str(place))
        return
    file, default, key = load_config(named_file), ("default",), "set" if os.environ.get("COLONY_API_KEY") else None
    merged = effective(file, explicit)
    label = os.environ.get("COLONY_MEMORY_LABEL")
    if label is not None:
        merged["label"] = Setting(label, ("COLONY_MEMORY_LABEL",))
    defaults = {param.name: param.default or None for verb in ("status", "watch") for param in parameters_of(verb)}
    defaults["vault"] = choose_place().url if "vault" not in merged else None
    found = {name: merged.get(name) or Setting(defaults.get(name), default) for name in SETTINGS}
    document = {"path": str(file.path), "exists": file.exists, "api_key": key}
    rows = [row for row in found.items() if row[1].value not in (None, (), [])]
    rows.sort(key=lambda row: row[1].sources == default)
    for name, value in (("base_url", os.environ.get("COLONY_BASE_URL")), ("api_key", key)):
        rows[:0] = [(name, Setting(value, (f"COLONY_{name.upper()}",)))] if value else []
    cells = []
    for name, setting in rows:
        values = setting.value if isinstance(setting.value, (list, tuple)) else [setting.value]
        text = ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)
        origins = [k if k.startswith("-") or k.isupper() or k in default else f"file: {k}" for k in setting.sources]
        cells.append([name, shown(text), shown(", ".join(origins))])
    table = draw([Column("setting"), Column("value"), Column("from", wraps=True)], cells)
    missing = "" if file.exists else ", which is not there"
    settings = {name: asdict(setting) for name, setting in found.items()}
    common.output.show({**document, "settings": settings}, f"configuration file {file.path}{missing}\n\n{table}")
