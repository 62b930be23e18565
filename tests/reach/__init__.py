"""How people and agents come to engramq: clients connected, hooks, the package."""
