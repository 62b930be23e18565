-- name: import_batches
-- The newest batches of imports, of one principal or of all, each with the counts of its answer; a refused one has none.
select l.principal, l.principal_untrusted, l.created_at,
    coalesce((l.answer #>> '{reply,stored}')::bigint, 0) as stored,
    coalesce((l.answer #>> '{reply,updated}')::bigint, 0) as updated,
    coalesce((l.answer #>> '{reply,skipped}')::bigint, 0) as skipped,
    coalesce((l.answer #>> '{reply,rejected}')::bigint, 0) as rejected
from ledger l
where l.tenant = %(tenant)s and l.command = any(%(commands)s::text[])
    and l.created_at > now() - make_interval(hours => %(hours)s)
    and (%(principal)s::text is null
        or (l.principal = %(principal)s and l.principal_untrusted = %(principal_untrusted)s))
order by l.created_at desc, l.command_id desc
limit %(limit)s

-- name: waiting_for_vectors
-- How many memories of the namespace have no vector yet, and what time it is.
select (
    select count(*) from memories m where m.tenant = %(tenant)s and m.state = 'pending'
) as waiting, now() as at
