"""Export, restore and delete whole tenants."""
