"""A vault in a dict that refuses what the hosted one refuses, and can stop working after a number of calls."""

MAX_FILE_BYTES = 1_000_000
QUOTA_BYTES = 10_000_000


class StrictVault:
    """The five methods over ``files``.

    With ``stop_at=n`` the n-th call (from 0) and all later ones raise ConnectionError; ``applied`` tells whether the
    n-th still took effect. ``calls`` lists what was asked for.
    """

    def __init__(self, files=None, *, stop_at=None, applied=False):
        self.files = dict(files or {})
        self.calls = []
        self._stop_at = stop_at
        self._applied = applied

    def _call(self, method, filename, work):
        number = len(self.calls)
        self.calls.append((method, filename))
        if self._stop_at is None or number < self._stop_at:
            return work()
        if number == self._stop_at and self._applied:
            work()
        raise ConnectionError(f"the vault does not answer ({method} {filename})")

    def vault_status(self):
        return self._call("status", "", self._status)

    def vault_list_files(self):
        return self._call("list", "", self._list)

    def vault_get_file(self, filename):
        return self._call("get", filename, lambda: self._get(filename))

    def vault_upload_file(self, filename, content):
        return self._call("put", filename, lambda: self._put(filename, content))

    def vault_delete_file(self, filename):
        return self._call("delete", filename, lambda: self._delete(filename))

    def _status(self):
        used = sum(size(content) for content in self.files.values())
        quota = QUOTA_BYTES if self.files else 0
        return {
            "quota_bytes": quota,
            "used_bytes": used,
            "available_bytes": max(0, quota - used),
            "file_count": len(self.files),
        }

    def _list(self):
        items = [{"filename": name, "content_size": size(self.files[name])} for name in sorted(self.files)]
        return {"items": items, "total": len(items), "next_cursor": None}

    def _get(self, filename):
        if filename not in self.files:
            raise RuntimeError("not found")
        content = self.files[filename]
        return {"filename": filename, "content": content, "content_size": size(content)}

    def _put(self, filename, content):
        if not filename.endswith(".json") or len(filename) > 255:
            raise ValueError(f"refused filename {filename!r}")
        others = sum(size(text) for name, text in self.files.items() if name != filename)
        if size(content) > MAX_FILE_BYTES or others + size(content) > QUOTA_BYTES:
            raise ValueError(f"{filename} does not fit: {size(content)} bytes beside {others}")
        self.files[filename] = content
        return {"filename": filename, "content_size": size(content)}

    def _delete(self, filename):
        if filename not in self.files:
            raise RuntimeError("not found")
        del self.files[filename]
        return {}


def size(content):
    return len(content.encode("utf-8"))
