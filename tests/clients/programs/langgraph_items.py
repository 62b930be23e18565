"""Puts an item into the store, or prints what it gets and finds. Arguments: keep KEY TEXT, or read KEY."""

import sys

from engramq.langgraph import EngramqStore

SPACE = ("profile", "ada")
command, key, *text = sys.argv[1:]
store = EngramqStore()
if command == "keep":
    store.put(SPACE, key, {"note": text[0]})
else:
    item = store.get(SPACE, key)
    found = [*store.search(SPACE), *store.search(SPACE, query="Ada sees a doctor")]
    sys.stdout.write(str([each.value for each in (item, *found) if each is not None]))
store.close()
