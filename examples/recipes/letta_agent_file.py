"""A Letta agent file (.af) in a vault: each block, tool and agent a document, each message a line of one.

As one file every export is one changed document. Taken apart, ``diff`` and ``log`` show what the agent learned.
"""

import json
import sys
from pathlib import Path

from colony_memory import ColonyMemory, open_vault


def agent_file_to_documents(text: str) -> dict[str, str]:
    """Take an agent file apart; :func:`documents_to_agent_file` puts it together again, field by field."""
    whole = json.loads(text)
    lists = {key: whole.pop(key) for key in [*whole] if isinstance(whole[key], list)}
    documents = {}
    for key, entries in lists.items():
        for number, entry in enumerate(entries):
            name = f"letta/{key}/{number:05}"
            if isinstance(entry, dict) and isinstance(entry.get("messages"), list):
                entry = dict(entry)
                documents[f"{name}.messages.jsonl"] = "".join(line(message) for message in entry.pop("messages"))
            documents[f"{name}.json"] = page(entry)
    return {"letta/file.json": page({"lists": sorted(lists), "rest": whole}), **documents}


def documents_to_agent_file(documents: dict[str, str]) -> str:
    """The agent file, as ``import`` takes it."""
    head = json.loads(documents["letta/file.json"])
    whole = {**head["rest"], **{key: [] for key in head["lists"]}}
    for name, text in sorted(documents.items()):
        if name.endswith(".json") and name != "letta/file.json":
            entry, messages = json.loads(text), name.removesuffix(".json") + ".messages.jsonl"
            if messages in documents:
                entry["messages"] = [json.loads(each) for each in documents[messages].split("\n") if each]
            whole[name.split("/")[1]].append(entry)
    return json.dumps(whole, ensure_ascii=False, indent=2)


def page(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    mem = ColonyMemory(backend=open_vault("memory:"))
    info = mem.backup(agent_file_to_documents(text), label="letta")
    again = documents_to_agent_file(mem.restore(label="letta"))
    assert json.loads(again) == json.loads(text)
    print(f"{len(info.doc_names)} documents")
