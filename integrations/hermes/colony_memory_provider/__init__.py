"""A memory provider for Hermes Agent: what it remembers is saved when a session ends and before a compression.

It recalls nothing and has no tools: Hermes reads its own ``MEMORY.md`` and ``USER.md``, and this keeps them safe.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

from agent.memory_provider import MemoryProvider

__all__ = ["ColonyMemoryProvider", "register"]

_logger = logging.getLogger(__name__)
# Sessions of one process share the folder, and the label.
_saving = threading.Lock()


class ColonyMemoryProvider(MemoryProvider):
    """Saves ``$HERMES_HOME/memories`` with colony-memory."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._session = ""
        self._primary = True

    @property
    def name(self) -> str:
        """As ``memory.provider`` names it."""
        return "colony-memory"

    @property
    def pre_compress_checkpoint_api_version(self) -> int:
        """2 where the messages are saved too, so that Hermes may rely on it; else 1."""
        return 2 if _is_set("COLONY_MEMORY_CHECKPOINT") else 1

    def is_available(self) -> bool:
        """Whether it can be used, as far as that shows without asking a vault."""
        return not self.unavailable_reason()

    def unavailable_reason(self) -> str:
        """What is missing."""
        try:
            import colony_memory  # noqa: F401
        except ImportError:
            return "install colony-memory"
        if not (os.environ.get("COLONY_API_KEY") or os.environ.get("COLONY_MEMORY_VAULT")):
            return "set COLONY_API_KEY, or COLONY_MEMORY_VAULT"
        return ""

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Note where the memory is; nothing is asked of the vault."""
        self._session = session_id
        self._folder = Path(kwargs["hermes_home"]) / "memories"
        # What a subagent or a timer has is not the memory's to keep.
        self._primary = kwargs.get("agent_context", "primary") == "primary"

    def initialize_for_inspection(self, session_id: str, **kwargs: Any) -> None:
        """The same."""
        self.initialize(session_id, **kwargs)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """None: the plugin colony-memory-hermes has tools."""
        return []

    def get_config_schema(self) -> list[dict[str, Any]]:
        """What ``hermes memory setup`` asks for; all of it are environment variables."""
        return [
            {
                "key": "api_key",
                "description": "Key of the Colony account, for the hosted vault",
                "secret": True,
                "env_var": "COLONY_API_KEY",
            },
            {
                "key": "vault",
                "description": "Vault, where it is not the hosted one: a directory or s3://bucket/prefix",
                "env_var": "COLONY_MEMORY_VAULT",
            },
            {
                "key": "label",
                "description": "Label to save under",
                "default": "default",
                "env_var": "COLONY_MEMORY_LABEL",
            },
        ]

    def on_pre_compress(self, messages: list[dict[str, Any]], *, require_checkpoint: bool = False) -> str:
        """Save before messages are lost: the memory, and with ``COLONY_MEMORY_CHECKPOINT`` the messages.

        Raises:
            Exception: Not all of that could be saved.
        """
        checkpoint = require_checkpoint or self.pre_compress_checkpoint_api_version > 1
        self._save(messages if checkpoint else None)
        return ""

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:  # noqa: ARG002 - the host's signature
        """Save; what fails is logged, as nobody waits for it."""
        self._try()

    def on_session_switch(self, new_session_id: str, *, reset: bool = False, **kwargs: Any) -> None:  # noqa: ARG002
        """Save where a conversation is over, and go on with another."""
        self._session = new_session_id
        if reset:
            self._try()

    def _try(self) -> None:
        try:
            self._save(None)
        except Exception as error:  # noqa: BLE001 - a session must be able to end
            _logger.warning("colony-memory: the memory was not saved: %s", error)

    def _save(self, messages: list[dict[str, Any]] | None) -> None:
        from colony_memory import ColonyMemory, save_folder
        from colony_memory.shell.app.config import read_path_setting
        from colony_memory.shell.app.keys import client_arguments
        from colony_memory.shell.app.open import choose_place

        if self._folder is None or not self._primary:
            return
        label, keep = os.environ.get("COLONY_MEMORY_LABEL") or "default", os.environ.get("COLONY_MEMORY_KEEP")
        with _saving:
            trust = client_arguments(
                key_file=read_path_setting("COLONY_MEMORY_KEY_FILE"),
                trust=os.environ.get("COLONY_MEMORY_TRUST", ""),
                witness=read_path_setting("COLONY_MEMORY_WITNESS"),
            )
            place = choose_place()
            place.require()
            memory = ColonyMemory(backend=place.backend, **trust)
            empty = not self._folder.is_dir() or not any(self._folder.iterdir())
            # Memory that is gone is an error. One that never was is none.
            if not empty or memory.latest(label=label) is not None:
                saved = save_folder(
                    memory, self._folder, label=label, prune_keep=int(keep) if keep else None, secrets="stop"
                )
                if not saved:
                    raise RuntimeError(f"left out: {'; '.join(map(str, saved.left_out))}")
            if messages:
                name, text = _transcript(self._session, messages)
                memory.backup({name: text}, label=f"{label}-transcripts")


def _transcript(session: str, messages: list[dict[str, Any]]) -> tuple[str, str]:
    """A name that says what is in it, so that a second try saves nothing anew, and a line a message."""
    from colony_memory.capture.secrets import mask_contents

    lines = (json.dumps(each, ensure_ascii=False, sort_keys=True, default=str) for each in messages)
    contents: dict[str, str | bytes] = {"transcript": "".join(f"{line}\n" for line in lines)}
    mask_contents(contents)
    text = str(contents["transcript"])
    digest = hashlib.sha256(f"{session}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest[:32]}.jsonl", text


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def register(ctx: Any) -> None:
    """Called by Hermes when it looks for memory providers."""
    ctx.register_memory_provider(ColonyMemoryProvider())
