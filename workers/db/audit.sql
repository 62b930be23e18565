-- name: audit
-- Note who did what. What memories contain has no place here: it must be possible to erase it.
-- The clock's time, not the transaction's: entries about one row chain by their times too, whoever waited for it longest.
insert into audit_log (at, tenant, namespace, actor, action, target_id, old, new, reason, command_id)
values (
    clock_timestamp(), %(tenant)s, %(namespace)s, %(actor)s, %(action)s, %(target_id)s, %(old)s, %(new)s, %(reason)s,
    %(command_id)s
)
returning id

-- name: audit_entries
-- The newest entries, newest first. Those of a command are kept together by their ids.
select a.id, a.at, a.actor, a.action, a.target_id, a.old, a.new, a.reason, a.command_id
from audit_log a
where a.tenant = %(tenant)s
    and (%(action)s::text is null or a.action = %(action)s)
    and (%(actor)s::text is null or a.actor = %(actor)s)
    and (%(target_id)s::uuid is null or a.target_id = %(target_id)s)
    and (%(command_id)s::uuid is null or a.command_id = %(command_id)s)
    and (%(since)s::timestamptz is null or a.at >= %(since)s)
    and (%(until)s::timestamptz is null or a.at <= %(until)s)
order by a.id desc
limit %(limit)s
