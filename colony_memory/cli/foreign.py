"""The words of restic, borg, rclone and git, with what they are here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """A verb of another program.

    Attributes:
        verbs: Ours: the first that takes as many arguments, of those that there are.
        options: What else it needs.
        same: Its arguments mean what ours do. Else only ids are taken over.
    """

    verbs: tuple[str, ...]
    options: tuple[str, ...] = ()
    same: bool = True


_LEFTOVERS = ("--leftovers",)
#: One that has become a verb is that verb, whatever stands here.
WORDS = {
    **dict.fromkeys(("create", "save", "snapshot", "add", "archive", "commit"), Word(("backup",))),
    **dict.fromkeys(("stash", "push", "upload", "put"), Word(("backup",), same=False)),
    **dict.fromkeys(("extract", "unpack"), Word(("restore",))),
    **dict.fromkeys(
        ("checkout", "clone", "pull", "fetch", "download", "mount", "recover", "reset", "revert", "rollback", "undo"),
        Word(("restore",), same=False),
    ),
    **dict.fromkeys(("load", "get"), Word(("restore", "cat"), same=False)),
    **dict.fromkeys(("snapshots", "ls", "list", "archives", "files", "reflog"), Word(("list", "show"))),
    "history": Word(("log", "list")),
    **dict.fromkeys(("blame", "annotate"), Word(("log", "list"), same=False)),
    **dict.fromkeys(("find", "search"), Word(("grep", "list"), same=False)),
    **dict.fromkeys(("info", "stats"), Word(("status", "show"))),
    **dict.fromkeys(("doctor", "health", "size", "about", "branch", "labels", "ping"), Word(("status",), same=False)),
    **dict.fromkeys(("dump", "print", "view", "less", "more"), Word(("cat",))),
    **dict.fromkeys(("check", "fsck", "cryptcheck", "validate", "audit"), Word(("verify",))),
    **dict.fromkeys(("compare", "changes"), Word(("diff",))),
    **dict.fromkeys(("forget", "expire"), Word(("prune", "delete"))),
    **dict.fromkeys(("gc", "compact", "cleanup", "clean", "cache"), Word(("prune",), _LEFTOVERS, same=False)),
    **dict.fromkeys(("remove", "rm", "drop", "purge"), Word(("delete",))),
    **dict.fromkeys(("keep", "protect", "hold"), Word(("pin",))),
    **dict.fromkeys(("unprotect", "release"), Word(("unpin",))),
    **dict.fromkeys(("sync", "copyto", "mirror", "replicate", "cp"), Word(("copy",), same=False)),
    **dict.fromkeys(("daemon", "serve", "schedule"), Word(("watch",), same=False)),
    **dict.fromkeys(("key", "keys", "genkey"), Word(("keygen",), same=False)),
    **dict.fromkeys(("profiles", "settings", "configure", "show-config", "dump-config"), Word(("config",), same=False)),
    "merge": Word(("backup",), ("--on-conflict", "merge"), same=False),
}

DIR, ID, NOTHING = "DIR", "ID", ""
#: Options of other programs: with ours, with the argument that they are here, or with nothing where this is always so.
OPTIONS = {
    **dict.fromkeys(("--repo", "-r", "--repository", "--remote", "--url", "--backend", "--store"), "--vault"),
    **dict.fromkeys(("--target", "-t", "--directory", "-C", "--dest", "--destination", "--into", "--to"), DIR),
    **dict.fromkeys(("--id", "--snapshot-id", "--archive"), ID),
    **dict.fromkeys(("--keep-last", "-l"), "--keep"),
    **dict.fromkeys(("--message", "-m", "--comment", "--description"), "--note"),
    **dict.fromkeys(("--include", "-i"), "--only"),
    **dict.fromkeys(("--stream", "--branch", "--name"), "--label"),
    **dict.fromkeys(("--key", "--signing-key"), "--key-file"),
    **dict.fromkeys(("--profile", "--use-profile", "-P"), "--set"),
    "--read-data-subset": NOTHING,
}
FLAGS = {
    "--silent": "--quiet",
    **dict.fromkeys(("--dryrun", "--what-if", "--plan"), "--dry-run"),
    **dict.fromkeys(("--read-data", "--verify-data", "--verify", "--prune", "--progress", "-p", "--stats"), NOTHING),
}
