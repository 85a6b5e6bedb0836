"""The verb ``mcp``: one folder's memory for the host of an agent."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from colony_memory.cli.options import CommonOptions, FormatOption, Without
from colony_memory.cli.saving import SavingOptions

if TYPE_CHECKING:
    from colony_memory.cli.output import Output
    from colony_memory.mcp.server import MemoryServer

EXAMPLES = (
    "colony-memory mcp ~/agent/memory",
    "colony-memory mcp --label research --keep 50 --allow-restore ~/agent/memory",
    "colony-memory mcp --http 8765 --token-file ~/.config/colony-memory.token ~/agent/memory",
)


def run(
    directory: Annotated[str, typer.Argument(metavar="DIR", hidden=True)],
    *,
    saving: Annotated[SavingOptions, Without({"note", "tag"})],
    allow_restore: Annotated[
        bool, typer.Option("--allow-restore", help="Offer to restore too. The person is asked each time.")
    ] = False,
    restore_unasked: Annotated[
        bool,
        typer.Option("--restore-unasked", help="With --allow-restore: do it too where the host cannot ask anybody."),
    ] = False,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve on this port of 127.0.0.1, behind a token. Default: standard input and output. 0: any port.",
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="The token for --http; made if it is missing. Default: a new one each time, printed once.",
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002 - the word for it
    common: CommonOptions,
) -> int:
    """Serve one folder's memory to an agent's host, by the Model Context Protocol.

    DIR is the folder. The host gets tools to save it, to list, show, verify, compare and look back, and to tell
    whether it is protected; all of them are about this folder, this label and this vault, and none takes a path. What
    is saved is what 'backup' with these options would save.

    A host starts this command itself and speaks to it on its input and output. With --http it runs on its own, until
    SIGTERM or Ctrl-C. It listens on this machine only, and answers nobody without the token.
    """
    from colony_memory.mcp import require_mcp

    if restore_unasked and not allow_restore:
        raise ValueError("--restore-unasked is for --allow-restore: give both, or neither")
    if token_file is not None and http is None:
        raise ValueError("--token-file is for --http: give it, or leave it out")
    require_mcp()
    from colony_memory.cli.memory import at_vault, format_of, trust_of
    from colony_memory.mcp.served import Served, real_folder
    from colony_memory.mcp.server import MemoryServer

    with at_vault(common.vault, replace(common, quiet=True).output, making=True) as place:
        served = Served(
            place,
            real_folder(directory),
            saving.parsed(),
            trust=trust_of(common),
            wire=format_of(format),
            restore="unasked" if restore_unasked else "asked" if allow_restore else "no",
        )
        server = MemoryServer(served)
        if http is None:
            from colony_memory.mcp.stdio import serve_stdio

            if sys.stdin is not None and sys.stdin.isatty():
                common.output.note("waiting for a host on standard input, which a terminal is not; Ctrl-C to stop")
            serve_stdio(server)
        else:
            _serve_http(server, http, token_file, common.output)
    return 0


def _serve_http(server: MemoryServer, port: int, token_file: str | None, output: Output) -> None:
    from colony_memory.cli.errors import say, say_json
    from colony_memory.mcp.http import LOOPBACK, PATH, listen, new_token, read_token, serve_http

    token, told = new_token(), True
    if token_file is not None:
        token, made = read_token(token_file)
        told = False
        output.note(f"the token is {'made and kept' if made else 'the one'} in {token_file}")
    with listen(port) as at:
        url = f"http://{LOOPBACK}:{at.getsockname()[1]}{PATH}"
        output.note(f"serving {url}; SIGTERM or Ctrl-C to stop")
        if output.as_json:
            say_json({"url": url, "token": token if told else None})
        elif told:  # whoever it is for has no other way to it
            say(f"the token, which is not told again: {token}")
        serve_http(server, at, token=token)
