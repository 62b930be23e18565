-- Reading the audit log: the newest entries of a namespace, and all that one command did.
create index audit_log_recent on audit_log (namespace, id);
create index audit_log_command on audit_log (command_id);
