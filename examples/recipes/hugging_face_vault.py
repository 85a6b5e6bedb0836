"""A private Hugging Face dataset as a vault: five methods over ``huggingface_hub.HfApi``.

Each write is a commit. A dataset has no conditional write of one file, so let one program at a time save to it, and
the old states stay in its history when a snapshot is pruned.
"""

import tempfile
from pathlib import Path

from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, RepositoryNotFoundError


class Failed(Exception):
    """What the Hub answered, with the status by which the package tells one failure from another."""

    def __init__(self, message, status=None, code=None):
        super().__init__(message)
        self.status, self.code = status, code


class DatasetVault:
    """Files below ``folder`` of a dataset, which has to be there; make it private."""

    unlimited = True  # no quota to ask for

    def __init__(self, api, repo_id, folder="vault"):
        self.api, self.folder = api, folder
        self.repo = {"repo_id": repo_id, "repo_type": "dataset"}

    def vault_status(self):
        items = self.vault_list_files()["items"]
        used = sum(item["content_size"] for item in items)
        return {"quota_bytes": 2**50, "used_bytes": used, "available_bytes": 2**50 - used, "file_count": len(items)}

    def vault_list_files(self):
        try:
            entries = self._ask(self.api.list_repo_tree, path_in_repo=self.folder, expand=True)
        except Failed as error:
            if error.code != "NOT_FOUND":
                raise
            entries = []  # the dataset is there, and the folder is not yet
        items = [
            {
                "filename": entry.path.removeprefix(f"{self.folder}/"),
                "content_size": entry.size,
                "updated_at": entry.last_commit.date.isoformat() if entry.last_commit else None,
            }
            for entry in entries
            if hasattr(entry, "size")
        ]
        return {"items": items, "total": len(items)}

    def vault_get_file(self, filename):
        # Of one commit, so that what is looked for and what is read are the same.
        commit = self._ask(self.api.repo_info).sha
        path = f"{self.folder}/{filename}"
        if not self._ask(self.api.get_paths_info, paths=[path], revision=commit):
            raise Failed(filename, 404, "NOT_FOUND")
        with tempfile.TemporaryDirectory() as scratch:  # not the cache: memory stays out of it
            found = self._ask(self.api.hf_hub_download, filename=path, revision=commit, local_dir=scratch)
            return {"content": Path(found).read_bytes().decode()}

    def vault_upload_file(self, filename, content):
        data = content.encode()
        self._ask(
            self.api.upload_file,
            path_or_fileobj=data,
            path_in_repo=f"{self.folder}/{filename}",
            commit_message=f"save {filename}",
        )
        return {"filename": filename, "content_size": len(data)}

    def vault_delete_file(self, filename):
        self._ask(
            self.api.delete_file, path_in_repo=f"{self.folder}/{filename}", commit_message=f"delete {filename}"
        )

    def _ask(self, method, **options):
        try:
            found = method(**self.repo, **options)
            return list(found) if hasattr(found, "__next__") else found
        except RepositoryNotFoundError as error:  # which is no proof that nothing is saved
            raise Failed(f"no such dataset, or no access: {self.repo['repo_id']}", 403) from error
        except EntryNotFoundError as error:
            raise Failed(str(error), 404, "NOT_FOUND") from error
        except HfHubHTTPError as error:
            raise Failed(str(error), error.response.status_code if error.response is not None else None) from error
