"""Handle a client's event for `engramq hook`: recall for the model, capture what was said.

A process for each event, which the client waits for: standard library only, one connection to the running stack's
gateway, and a bound for the whole. It never fails in a way that the client would show or be stopped by. A further
client is a module with its ClientFormat, and an entry in `capture.CLIENTS`.
"""
