-- name: deferred_at
-- The links that wait at these memories, in the order in which they were asked for.
select d.id, d.source_id, d.target_id
from deferred_links d
where d.tenant = %(tenant)s and (d.source_id = any(%(ids)s) or d.target_id = any(%(ids)s))
order by d.id
limit %(limit)s

-- name: deferred_requests
-- Those of these that still wait, in the order in which they were asked for.
select d.id, d.source_id, d.target_id, d.request, d.principal, d.command_id, d.item
from deferred_links d
where d.tenant = %(tenant)s and d.id = any(%(ids)s)
order by d.id

-- name: deferred_between
-- The links that wait between two memories, in the order in which they were asked for.
select d.id, d.source_id, d.target_id, d.request, d.principal, d.command_id, d.item
from deferred_links d
where d.tenant = %(tenant)s and d.source_id = any(%(ids)s) and d.target_id = any(%(ids)s)
order by d.id

-- name: delete_deferred
-- Let links wait no more.
delete from deferred_links where tenant = %(tenant)s and id = any(%(ids)s)

-- name: note_resolved
-- Add to the answer of a command (to one item of it, when it was a batch) what became of a deferred link.
update ledger l set answer = jsonb_set(
    l.answer,
    case when %(item)s::integer is null then array['reply', 'resolved'] else array['reply', 'results', (
        select (n.at - 1)::text
        from jsonb_array_elements(l.answer #> '{reply,results}') with ordinality as n (one, at)
        where (n.one ->> 'index')::integer = %(item)s::integer
    ), 'resolved'] end,
    %(resolved)s)
where l.tenant = %(tenant)s and l.command_id = %(command_id)s and (
    case when %(item)s::integer is null then l.answer ? 'reply'
    else l.answer @@ ('$.reply.results[*].index == ' || %(item)s::integer::text)::jsonpath end)

-- fragment: linkable
-- Whether a memory m can be linked, now or once it has its vector.
m.tenant = %(tenant)s and {current}

-- name: deferred_due
-- An end of each link that waits for nothing any more: both ends are active, or one is gone.
select d.source_id as id
from deferred_links d
left join lateral (select m.node_id, m.state from memories m where m.node_id = d.source_id and {linkable}) s on true
left join lateral (select m.node_id, m.state from memories m where m.node_id = d.target_id and {linkable}) t on true
where d.tenant = %(tenant)s
    and (s.node_id is null or t.node_id is null or (s.state = 'active' and t.state = 'active'))
order by d.created_at
limit %(limit)s
