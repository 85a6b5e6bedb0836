"""Vaults in a dictionary, for tests of the view that the verbs have of a vault."""

import asyncio
import threading

from colony_sdk import ColonyAPIError, ColonyNotFoundError, ColonyServerError, ColonyValidationError

from colony_memory._engine.store import Vault

NAME = "cmem.work.x.manifest.json"
GONE = ColonyNotFoundError("gone", 404, {}, "NOT_FOUND")
BARE_404 = ColonyNotFoundError("gone", 404)
REFUSED = ColonyValidationError("no", 400, {}, "INVALID_INPUT")
BUSY = ColonyServerError("busy", 503)
CHANGED = ColonyAPIError("changed", 412, {}, "PRECONDITION_FAILED")


class Dictionary:
    """A vault in a dictionary. What is in ``odd`` happens in place of the method of that name."""

    def __init__(self, files=None, **odd):
        self.files = dict(files or {})
        self.odd = odd
        self.calls = []
        self.threads = set()

    def _do(self, method, usual):
        self.calls.append(method)
        self.threads.add(threading.current_thread().name)
        odd = self.odd.get(method, usual)
        reply = odd() if callable(odd) else odd
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def vault_status(self):
        return self._do("status", lambda: {"quota_bytes": 10, "used_bytes": 1})

    def vault_list_files(self):
        return self._do("list", lambda: {"items": [{"filename": name} for name in self.files]})

    def vault_get_file(self, filename):
        return self._do("get", lambda: {"content": self.files[filename]})

    def vault_upload_file(self, filename, content):
        def upload():
            self.files[filename] = content
            return {"filename": filename, "content_size": len(content.encode())}

        return self._do("upload", upload)

    def vault_delete_file(self, filename):
        return self._do("delete", lambda: self.files.pop(filename))


def applied(backend, error):
    """An upload of ``new`` that is done and then answered with an error."""

    def upload():
        backend.files[NAME] = "new"
        return error

    return upload


def view(files=None, **odd):
    backend = Dictionary(files, **odd)
    return Vault(backend), backend


NO_ANSWER = [BUSY, ColonyServerError("oops", 500), TimeoutError("slow"), RuntimeError("odd"), ConnectionResetError()]
FILES = {f"file {number:02}": str(number) for number in range(40)}


class Tagged(Dictionary):
    def __init__(self, files=None, **odd):
        super().__init__(files, **odd)
        self.conditions = []

    def vault_upload_file_if(self, filename, content, **condition):
        def upload():
            self.conditions.append(condition)
            if condition.get("if_none_match") == "*" and filename in self.files:
                return CHANGED
            if condition.get("if_match") not in (None, self.files.get(filename)):
                return CHANGED
            self.files[filename] = content
            return {"filename": filename, "content_size": len(content.encode())}

        return self._do("upload if", upload)


class Coroutines(Dictionary):
    pause = 0.0
    running = most = 0

    async def _wait(self):
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.pause)
        finally:
            self.running -= 1

    async def vault_status(self):
        await self._wait()
        return Dictionary.vault_status(self)

    async def vault_list_files(self):
        await self._wait()
        return Dictionary.vault_list_files(self)

    async def vault_get_file(self, filename):
        await self._wait()
        return Dictionary.vault_get_file(self, filename)

    async def vault_upload_file(self, filename, content):
        await self._wait()
        return Dictionary.vault_upload_file(self, filename, content)

    async def vault_delete_file(self, filename):
        await self._wait()
        return Dictionary.vault_delete_file(self, filename)


class Decorated(Dictionary):
    """Plain methods that return something to await."""

    def vault_get_file(self, filename):
        async def later():
            return Dictionary.vault_get_file(self, filename)

        return later()
