"""Any vault, with faults that strike by method and by counting calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeAlias

from colony_memory._format.names import common_start
from colony_memory._values import Record
from colony_memory.vaults import ConditionalUpload, FileLookup, FreeSpace, ManyDeletion, OperationBudget, PrefixListing

if TYPE_CHECKING:
    from colony_memory.vaults import VaultBackend

    Match: TypeAlias = "str | Callable[[str], bool] | None"
    Error: TypeAlias = "BaseException | type[BaseException] | Callable[[], BaseException]"

__all__ = ["VERBS", "FaultyVault", "Injection", "ProcessDied"]

#: Verbs that calls are counted by. A conditional upload is an ``"upload"``, a prefix listing and a lookup a ``"list"``.
VERBS = ("status", "list", "get", "upload", "delete")


class ProcessDied(BaseException):
    """The process ended at this vault ``call``. No ``except Exception`` catches it, as none survives a kill."""

    def __init__(self, call: int) -> None:
        super().__init__(f"the process died at vault call {call}")
        self.call = call


class Injection(Record, eq=False):
    """One injected fault, hook or lie, the calls that it strikes, and how often."""

    verb: str  # the calls that it strikes, "*" for all
    match: Match  # a part of the filename or a predicate on it; None for every file
    times: int | None  # number of strikes left, None for no limit
    skip: int  # number of fitting calls to let pass before
    what: Any
    fired: int = 0  # number of strikes so far

    def __post_init__(self) -> None:
        if self.skip < 0 or (self.times is not None and self.times < 1):
            raise ValueError(f"times must be at least 1 and skip at least 0, not {self.times} and {self.skip}")

    def strike(self, verb: str, filename: str) -> bool:
        """True if this call is struck, which is then counted."""
        match = self.match
        if self.verb not in ("*", verb) or self.times == 0:
            return False
        if match is not None and not (match in filename if isinstance(match, str) else match(filename)):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        self.fired += 1
        return True


def _counted(name: str, verb: str) -> Callable[..., Any]:
    """A method that calls the wrapped vault's of this name, counted as this verb, with the faults injected for it."""

    def call(self: FaultyVault, *args: Any, **options: Any) -> Any:
        first = args[0] if args else options.get("filename", options.get("prefix", ""))
        filename = first if isinstance(first, str) else common_start(first)
        return self._call(verb, filename, lambda: getattr(self.vault, name)(*args, **options))

    call.__name__ = name
    return call


class FaultyVault:
    """A vault that does as the wrapped one does, except when told to fail, to lie or to die.

    One call goes through: hooks, faults before it, the vault itself, faults after it, lies. The optional methods are
    there exactly when the wrapped vault has them; asking for the operations left is not counted. May be used from
    several threads.

    In every method below, ``verb`` is one of :data:`VERBS` or ``"*"``, and ``match`` a part of the filename or a
    predicate on it (of a listing: the prefix, or ``""``; of status: ``""``).
    """

    def __init__(self, vault: VaultBackend) -> None:
        self.vault: Any = vault  #: The wrapped vault.
        self.calls: list[tuple[str, str]] = []  #: ``(verb, filename)`` of every call, including those that failed.
        self.count = 0  #: Number of calls so far, each verb counted.
        self._last_call: int | None = None
        self._last_applied = False
        self._injected: dict[str, list[Injection]] = {"hook": [], "before": [], "after": [], "lie": []}
        self._lock = threading.Lock()
        for protocol, method in _OPTIONAL.items():
            if isinstance(vault, protocol):
                setattr(self, method.__name__, MethodType(method, self))

    def fail(
        self,
        verb: str,
        error: Error,
        *,
        match: Match = None,
        times: int | None = None,
        skip: int = 0,
        after: bool = False,
    ) -> Injection:
        """Raise instead of answering. Where several faults fit a call, the first one injected strikes.

        ``error`` is an exception, a class of them, called with a message, or something without arguments that returns
        one. ``times`` is the number of failures, None until :meth:`heal`; ``skip`` fitting calls pass first. With
        ``after`` the vault carries the call out, and then the call fails, unless the vault itself refuses.
        """
        return self._add("after" if after else "before", Injection(verb, match, times, skip, error))

    def hook(
        self, verb: str, callback: Callable[[], object], *, match: Match = None, times: int | None = 1
    ) -> Injection:
        """Run code before a call, such as another writer's turn. It may itself use this vault."""
        return self._add("hook", Injection(verb, match, times, 0, callback))

    def lie(
        self, verb: str, replace: Callable[[Any], Any], *, match: Match = None, times: int | None = None
    ) -> Injection:
        """Answer with the result of ``replace``, called with the vault's reply."""
        return self._add("lie", Injection(verb, match, times, 0, replace))

    def stop_after(self, n: int, *, applied: bool) -> None:
        """Die at the n-th call from now (1: the very next one), which still reaches the vault if ``applied``, and at
        every later one, which never does.
        """
        if n < 1:
            raise ValueError(f"calls are counted from 1, not {n}")
        with self._lock:
            self._last_call, self._last_applied = self.count + n, applied

    def heal(self) -> None:
        """Forget every fault, hook and lie, and live again. The log and the count go on."""
        with self._lock:
            for injections in self._injected.values():
                injections.clear()
            self._last_call = None

    vault_status = _counted("vault_status", "status")
    vault_list_files = _counted("vault_list_files", "list")
    vault_get_file = _counted("vault_get_file", "get")
    vault_upload_file = _counted("vault_upload_file", "upload")
    vault_delete_file = _counted("vault_delete_file", "delete")

    def _add(self, when: str, injection: Injection) -> Injection:
        if injection.verb not in (*VERBS, "*"):
            raise ValueError(f"unknown verb {injection.verb!r}: one of {', '.join(VERBS)} or '*'")
        with self._lock:
            self._injected[when].append(injection)
        return injection

    def _call(self, verb: str, filename: str, apply: Callable[[], Any]) -> Any:
        with self._lock:
            self.calls.append((verb, filename))
            self.count += 1
            number, last, applied = self.count, self._last_call, self._last_applied
        if last is not None and (number > last or (number == last and not applied)):
            raise ProcessDied(number)
        try:
            for hook in self._struck("hook", verb, filename):
                hook.what()
            self._strike("before", verb, filename)
            reply = apply()
            self._strike("after", verb, filename)
            for lie in self._struck("lie", verb, filename):
                reply = lie.what(reply)
            return reply
        finally:
            if number == last:
                raise ProcessDied(number)

    def _strike(self, when: str, verb: str, filename: str) -> None:
        for fault in self._struck(when, verb, filename, most=1):
            error = fault.what
            if isinstance(error, type):
                raise error(f"injected fault: {verb} {filename}")
            raise error if isinstance(error, BaseException) else error()

    def _struck(self, when: str, verb: str, filename: str, *, most: int | None = None) -> list[Injection]:
        with self._lock:
            return [*islice((fault for fault in self._injected[when] if fault.strike(verb, filename)), most)]


def vault_operations_left(self: FaultyVault) -> int | None:
    left: int | None = self.vault.vault_operations_left()
    return left


_OPTIONAL: dict[type, Callable[..., Any]] = {
    ConditionalUpload: _counted("vault_upload_file_if", "upload"),
    PrefixListing: _counted("vault_list_prefix", "list"),
    FileLookup: _counted("vault_look_up_files", "list"),
    ManyDeletion: _counted("vault_delete_files", "delete"),
    OperationBudget: vault_operations_left,
    FreeSpace: _counted("vault_free_bytes", "status"),
}
