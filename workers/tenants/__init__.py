"""Whole tenants: what they hold, their export and their deletion."""
