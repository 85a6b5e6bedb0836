"""An agent's process with the published plugin in it: one JSON request a line in, one JSON reply a line out.

The harness is played by ``Harness``; the plugin registers with it as with the real one, and is configured through
its environment variables. Requests: ``{"do": "fire", "hooks": […]}`` runs the callbacks of these hooks in order,
``{"do": "tool", "name": …, "arguments": {…}}`` calls a tool.
"""

import json
import logging
import os
import sys


class Harness:
    def __init__(self):
        self.tools = {}
        self.hooks = []

    def register_tool(self, *, name, handler, **_):
        self.tools[name] = handler

    def register_hook(self, name, callback):
        self.hooks.append((name, callback))

    def fire(self, name):
        for registered, callback in self.hooks:
            if registered == name:
                callback(session_id="s1")


def main():
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not end up among the replies
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s %(levelname)s %(message)s")

    import colony_memory_hermes
    from colony_memory_hermes import lifecycle

    import colony_memory

    harness = Harness()
    colony_memory_hermes.register(harness)

    def answer(request):
        if request["do"] == "hello":
            return {"package": colony_memory.__version__, "plugin": colony_memory_hermes.__version__}
        if request["do"] == "tool":
            return json.loads(harness.tools[request["name"]](request["arguments"]))
        # The plugin takes two saves within seconds for one; here, sessions are far apart.
        lifecycle._state["last_backup_monotonic"] = float("-inf")
        for hook in request["hooks"]:
            harness.fire(hook)
        return None

    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
