"""The options and arguments of every `engramq` command, each in a module of its own that is loaded when it is called.

Parsing imports nothing of gateway and workers and starts nothing; what a command then does stands in `gateway.cli`
where it needs the queue, and in `workers.cli` where it needs the database.
"""
