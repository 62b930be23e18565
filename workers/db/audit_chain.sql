-- fragment: chain_link
-- An entry of the audit log (a) at its place in the chain (c), as receipts and checks read it.
c.place, c.entry, c.salt, c.digest, c.hash, a.id, a.at, a.actor, a.action, a.target_id, a.command_id,
a.owner, a.brought_at, a.brought_from, {audit_body} as body

-- fragment: audit_body
-- What an entry says, in the one form in which jsonb writes it.
jsonb_build_object('old', a.old, 'new', a.new, 'reason', a.reason)::text

-- name: lock_chain
-- Add to the chain of a namespace one after another, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('engramq.audit_chain', %(tenant)s))

-- name: chain_end
-- The last place of the chain, and the lowest entry among the last few: later ones that have no place may be as old.
select
    max(last.place) as place,
    (array_agg(last.hash order by last.place desc))[1] as hash,
    min(last.entry) as lowest
from (
    select c.place, c.hash, c.entry from audit_chain c
    where c.tenant = %(tenant)s
    order by c.place desc
    limit %(few)s
) last

-- fragment: without_place
-- Entries of the audit log (a) that have no place yet.
from audit_log a
where a.tenant = %(tenant)s and not exists (select from audit_chain c where c.tenant = %(tenant)s and c.entry = a.id)

-- name: unchained_entries
-- Those behind one, in the order of their ids.
select a.id, a.at, a.actor, a.action, a.target_id, a.command_id, a.owner, a.brought_at,
    a.brought_from, {audit_body} as body
{without_place} and a.id > %(after)s
order by a.id
limit %(limit)s

-- name: unchained_count
-- How many entries have no place yet.
select count(*) as entries
{without_place}

-- name: add_to_chain
-- Give entries their places.
insert into audit_chain (tenant, place, entry, salt, digest, hash)
select %(tenant)s, place, entry, salt, digest, hash
from unnest(
    %(places)s::bigint[], %(entries)s::bigint[], %(salts)s::bytea[], %(digests)s::bytea[], %(hashes)s::bytea[]
) as given (place, entry, salt, digest, hash)
returning place

-- name: chain_links
-- So many places of the chain behind one, each with its entry, null where that is gone.
select {chain_link}
from audit_chain c
left join audit_log a on a.tenant = %(tenant)s and a.id = c.entry
where c.tenant = %(tenant)s and c.place > %(after)s
order by c.place
limit %(limit)s

-- name: hash_at
-- The hash of one place.
select c.hash from audit_chain c where c.tenant = %(tenant)s and c.place = %(place)s

-- fragment: proven_links
-- Entries (a) at their places, each with the hash of the place before; and how many entries there are. `unreadable`: of
-- what is private to another than the reader (null: nobody).
select {chain_link}, a.owner is not null and a.owner is distinct from %(reader)s::text as unreadable,
    b.hash as before, count(*) over () as total
from audit_log a
join audit_chain c on c.tenant = %(tenant)s and c.entry = a.id
left join audit_chain b on b.tenant = %(tenant)s and b.place = c.place - 1

-- name: links_of_command
-- What a command did.
{proven_links}
where a.tenant = %(tenant)s and a.command_id = %(wanted)s
order by c.place
limit %(limit)s

-- name: links_of_erased
-- How something was erased.
{proven_links}
where a.tenant = %(tenant)s and a.target_id = %(wanted)s and a.action = any(%(erasing)s)
order by c.place
limit %(limit)s
