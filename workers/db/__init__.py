"""Reach PostgreSQL, as the only importer of its driver: transactions, named SQL, the ledger, the audit log."""
