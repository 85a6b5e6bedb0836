"""A LangGraph store in a vault: every item of every namespace is a document of its own."""

import json
from urllib.parse import quote, unquote

from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from colony_memory import ColonyMemory, open_vault

PAGE = 100


def store_to_documents(store: BaseStore) -> dict[str, str]:
    """Every item as JSON, under its namespace and key."""
    documents = {}
    for namespace in pages(lambda **page: store.list_namespaces(**page)):
        for item in pages(lambda **page: store.search(namespace, **page)):
            if item.namespace == namespace:  # a search finds what is below, too
                name = "/".join(quote(each, safe="") for each in (*item.namespace, item.key))
                documents[f"store/{name}.json"] = json.dumps(item.dict(), indent=1, sort_keys=True, default=str)
    return documents


def documents_to_store(documents: dict[str, str], store: BaseStore) -> None:
    """Put every item back. A store sets its times anew; those of before are in the documents."""
    for name, text in documents.items():
        if name.startswith("store/"):
            *namespace, key = map(unquote, name.removeprefix("store/").removesuffix(".json").split("/"))
            store.put(tuple(namespace), key, json.loads(text)["value"])


def pages(ask):
    """All that a paged question gives."""
    offset = 0
    while found := ask(limit=PAGE, offset=offset):
        yield from found
        offset += len(found)


if __name__ == "__main__":
    store = InMemoryStore()
    for number in range(250):
        store.put(("agents", "ada", "facts"), f"fact/{number}", {"text": f"fact number {number}"})
    store.put(("agents", "ada"), "name", {"text": "Ada"})
    store.put(("users", "ünal & co"), "../likes", {"text": "tea"})

    mem = ColonyMemory(backend=open_vault("memory:"))
    mem.backup(store_to_documents(store), label="ada")

    again = InMemoryStore()
    documents_to_store(mem.restore(label="ada"), again)
    assert len(again.search(("agents",), limit=1000)) == 251
    assert again.get(("users", "ünal & co"), "../likes").value == {"text": "tea"}
    assert again.get(("agents", "ada", "facts"), "fact/249").value == {"text": "fact number 249"}
    print("252 items back")
