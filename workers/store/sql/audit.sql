-- name: audit
-- Note who did what. What memories contain has no place here: it must be possible to erase it.
insert into audit_log (namespace, actor, action, target_id, old, new, reason, command_id)
values (%(namespace)s, %(actor)s, %(action)s, %(target_id)s, %(old)s, %(new)s, %(reason)s, %(command_id)s)
returning id
