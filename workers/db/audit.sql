-- name: audit
-- Note who did what. What memories contain has no place here: it must be possible to erase it.
-- The clock's time, not the transaction's: entries about one row chain by their times too, whoever waited for it longest.
insert into audit_log (at, tenant, namespace, actor, action, target_id, old, new, reason, command_id)
values (
    clock_timestamp(), %(tenant)s, %(namespace)s, %(actor)s, %(action)s, %(target_id)s, %(old)s, %(new)s, %(reason)s,
    %(command_id)s
)
returning id, at

-- name: blank_audit
-- Take out of the log what it says in somebody's words about memories, edges and nodes that are gone, but of why.
select blank_audit(%(erased)s, %(command_id)s)

-- fragment: names_target
-- Whether an entry is about something else, but names %(target_id)s: as an end of a link or an edge, as what replaced a
-- memory, as what lost a link or what stays hidden; or is about an edge that ends there.
%(target_id)s::uuid::text in (
    a.old ->> 'source_id', a.old ->> 'target_id', a.new ->> 'source_id', a.new ->> 'target_id',
    a.old ->> 'superseded_by', a.new ->> 'superseded_by')
or a.new -> 'displaced' @> jsonb_build_array(jsonb_build_object('memory_id', %(target_id)s::uuid::text))
or a.new -> 'displaced' @> jsonb_build_array(jsonb_build_object('other_id', %(target_id)s::uuid::text))
or a.new -> 'still_hidden' @> to_jsonb(%(target_id)s::uuid::text)
or a.target_id in (
    select e.id from edges e
    where e.tenant = %(tenant)s and e.layer = 'knowledge' and %(target_id)s::uuid in (e.source_id, e.target_id)
)

-- name: audit_entries
-- The newest entries, newest first, asked by who sees what is private too: of what is private to others than the reader
-- (%(reader)s, null: nobody) without what was said. Those of a command are kept together by their ids.
select a.id, a.at, a.actor, a.action, a.target_id, case when not about.hidden then a.old end as old,
    case when not about.hidden then a.new end as new, case when not about.hidden then a.reason end as reason, a.command_id
from audit_log a
cross join lateral (select exists (
    select from nodes n
    where n.tenant = %(tenant)s and n.owner is not null and n.owner is distinct from %(reader)s::text and n.id = any(
        array[a.target_id, (a.old ->> 'source_id')::uuid, (a.old ->> 'target_id')::uuid,
            (a.new ->> 'source_id')::uuid, (a.new ->> 'target_id')::uuid,
            (a.old ->> 'superseded_by')::uuid, (a.new ->> 'superseded_by')::uuid]
        || array(select (named.id #>> array[]::text[])::uuid from (
            select jsonb_path_query(a.new, '$.displaced[*].memory_id')
            union all select jsonb_path_query(a.new, '$.displaced[*].other_id')
            union all select jsonb_path_query(a.new, '$.still_hidden[*]')) named (id)))
) as hidden) about
where a.tenant = %(tenant)s
    and (%(action)s::text is null or a.action = %(action)s)
    and (%(actor)s::text is null or a.actor = %(actor)s)
    and (%(target_id)s::uuid is null or a.target_id = %(target_id)s or {names_target})
    and (%(before)s::bigint is null or a.id < %(before)s)
    and (%(command_id)s::uuid is null or a.command_id = %(command_id)s)
    and (%(since)s::timestamptz is null or a.at >= %(since)s)
    and (%(until)s::timestamptz is null or a.at <= %(until)s)
order by a.id desc
limit %(limit)s
