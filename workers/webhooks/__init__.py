"""Webhooks: what happened is told to servers of others, signed, at least once."""
