"""Whole tenants: exports, their way in, deletion."""
