"""What the commands do that need the database, once their options are parsed (`deploy.commands` defines these)."""
