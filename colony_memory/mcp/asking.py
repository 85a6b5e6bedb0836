"""The tool ``restore`` as the library takes it: whom it asks, and when."""

# The library reads these annotations, and those of what is made in a function it can only read as they are.

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from colony_memory.mcp import restoring
from colony_memory.mcp.replies import RestoreReply
from colony_memory.mcp.restoring import Agreement, Plan
from colony_memory.mcp.served import Served

if TYPE_CHECKING:
    from colony_memory.mcp.server import MemoryServer

_Name = Annotated[
    str,
    Field(max_length=64, description="An id from list, the beginning of one, latest, or latest~1 for the one before."),
]
_Globs = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=4096)]],
    Field(max_length=100, description="Only files whose name matches one of these globs; * matches / too."),
]
_Force = Annotated[bool, Field(description="Replace files that a program has open, and real secrets by masked ones.")]
_Fallback = Annotated[bool, Field(description="Where the snapshot is damaged, take the newest intact one.")]


def restore_tool(server: "MemoryServer", served: Served) -> Callable[..., Any]:
    """The tool for one server."""

    async def plan(ctx: Context[Any, Any], snapshot: str, files: list[str], force: bool, fallback: bool) -> Plan:
        call = partial(restoring.plan_restore, served, snapshot=snapshot, files=files, force=force, fallback=fallback)
        return (await server.do(call, ctx))[0]

    async def ask(ctx: Context[Any, Any], plan: Annotated[Plan, Resolve(plan)]) -> Elicit[Agreement] | Agreement:
        if restoring.can_ask(ctx.client_capabilities):
            return Elicit(plan.question, Agreement)
        if served.restore == "unasked":
            return Agreement(restore=True)
        raise ToolError(
            "nothing was restored: this client cannot ask the person; "
            "ask the person to restore it, or to start this server with --restore-unasked"
        )

    async def restore(  # noqa: PLR0917 - the library gives them by name
        ctx: Context[Any, Any],
        plan: Annotated[Plan, Resolve(plan)],
        answer: Annotated[ElicitationResult[Agreement], Resolve(ask)],
        snapshot: _Name = "latest",  # noqa: ARG001 - the plan has read it
        files: _Globs = [],  # noqa: B006 - the library copies it
        force: _Force = False,
        fallback: _Fallback = False,  # noqa: ARG001 - likewise
    ) -> RestoreReply:
        """Write the files of a snapshot into the folder, all or none. The person is asked first. What the folder holds
        is saved before; files in it that the snapshot lacks stay; a file that a program has open stops it.
        """
        if not isinstance(answer, AcceptedElicitation) or answer.data.restore is not True:
            raise ToolError("nothing was restored: the person did not agree")
        return await server.answer(partial(restoring.restore, served, plan=plan, files=files, force=force), ctx)

    return restore
