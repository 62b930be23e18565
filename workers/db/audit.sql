-- name: audit
-- Note who did what. What memories contain has no place here: it must be possible to erase it.
-- The clock's time, not the transaction's: entries about one row chain by their times too, whoever waited for it longest.
-- Whose it is (%(owner)s, else of what it names, or that was erased) is kept with it: what becomes private, shared or
-- somebody else's later, or goes, changes nothing of who reads it. Of two owners it is nobody's.
insert into audit_log (at, tenant, namespace, actor, action, target_id, old, new, reason, command_id, owner)
select
    clock_timestamp(), %(tenant)s, %(namespace)s, %(actor)s, %(action)s, %(target_id)s::uuid, %(old)s::jsonb,
    %(new)s::jsonb, %(reason)s, %(command_id)s::uuid, coalesce(%(owner)s::text, string_agg(distinct its.owner, e'\x1f\x1f'))
from (
    select n.owner from nodes n
    where n.tenant = %(tenant)s and n.owner is not null and n.id = any({named_ids})
    union all
    select a.owner from audit_log a
    where a.tenant = %(tenant)s and a.owner is not null and a.action = 'erase' and a.target_id = any({named_ids})
) its
returning id, at

-- fragment: named_ids
-- What an entry names: what it is about, the ends of a link, what replaced a memory, what lost a link, what stays hidden.
array[
    %(target_id)s::uuid, (%(old)s::jsonb ->> 'source_id')::uuid, (%(old)s::jsonb ->> 'target_id')::uuid,
    (%(new)s::jsonb ->> 'source_id')::uuid, (%(new)s::jsonb ->> 'target_id')::uuid,
    (%(old)s::jsonb ->> 'superseded_by')::uuid, (%(new)s::jsonb ->> 'superseded_by')::uuid
] || array(select (named.id #>> array[]::text[])::uuid from (
    select jsonb_path_query(%(new)s::jsonb, '$.displaced[*].memory_id')
    union all select jsonb_path_query(%(new)s::jsonb, '$.displaced[*].other_id')
    union all select jsonb_path_query(%(new)s::jsonb, '$.still_hidden[*]')
) named (id))

-- name: blank_audit
-- Take out of the log what it says in somebody's words about memories, edges and nodes that are gone, but of why.
select blank_audit(%(erased)s, %(command_id)s)

-- fragment: readable
-- Whether an entry is everybody's, or the reader's own.
(a.owner is null or a.owner = %(reader)s::text)

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
-- The newest entries, newest first, asked by who sees what is private too: of another's than the reader's (%(reader)s,
-- null: nobody's) without what was said, and found by nothing of it. Those of a command are kept together by their ids.
select a.id, a.at, a.actor, a.action, a.target_id, case when {readable} then a.old end as old,
    case when {readable} then a.new end as new, case when {readable} then a.reason end as reason, a.command_id
from audit_log a
where a.tenant = %(tenant)s
    and (%(action)s::text is null or a.action = %(action)s)
    and (%(actor)s::text is null or a.actor = %(actor)s)
    and (%(target_id)s::uuid is null or a.target_id = %(target_id)s or ({readable} and ({names_target})))
    and (%(before)s::bigint is null or a.id < %(before)s)
    and (%(command_id)s::uuid is null or a.command_id = %(command_id)s)
    and (%(since)s::timestamptz is null or a.at >= %(since)s)
    and (%(until)s::timestamptz is null or a.at <= %(until)s)
order by a.id desc
limit %(limit)s
