"""What commands do that need the database (`deploy.cli` has their options)."""
