"""What the page shows, an area each: from a request to calls of tools, and from their replies to HTML."""
