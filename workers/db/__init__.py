"""The way to PostgreSQL, and the only importer of its driver: transactions, named SQL, the ledger, the audit log."""
