"""Run engramq on one machine: homes, the supervisor and its servers, stdio, hooks, backups, doctor."""
