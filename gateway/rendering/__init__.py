"""How a reply is rendered for its reader: brief or full, and within a budget of characters."""
