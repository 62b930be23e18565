"""What the commands do that need the queue, once their options are parsed (`deploy.commands` defines these)."""
