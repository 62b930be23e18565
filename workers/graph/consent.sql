-- fragment: proposal_columns
-- What a record of a proposal is made from; %(principals)s of them have to approve.
p.id, p.action, p.target_id, p.covers, p.new_sector, p.change, p.proposed_by, p.reason, p.created_at, p.expires_at,
consent.approved_by,
case
    when p.used_at is not null then 'used'
    when p.rejected_at is not null then 'rejected'
    when p.expires_at <= now() then 'expired'
    when cardinality(consent.approved_by) >= %(principals)s then 'approved'
    else 'pending'
end as state

-- fragment: proposal_tables
-- Where those columns come from.
proposals p
cross join lateral (
    select array(
        select a.principal from approvals a
        where a.proposal_id = p.id and a.tenant = %(tenant)s
        order by a.approved_at, a.principal
    ) as approved_by
) as consent

-- name: insert_proposal
-- Ask for consent.
insert into proposals (id, tenant, action, target_id, covers, new_sector, change, proposed_by, reason, expires_at)
values (
    %(id)s, %(tenant)s, %(action)s, %(target_id)s, %(covers)s, %(new_sector)s, %(change)s, %(proposed_by)s, %(reason)s,
    now() + make_interval(hours => %(hours)s)
)

-- name: lock_proposer
-- Let nobody else make proposals in this principal's name, for its open ones to be counted.
select pg_advisory_xact_lock(hashtextextended('engramq.proposals ' || %(principal)s, %(tenant)s))

-- name: count_open_proposals
-- How many proposals of a principal wait for a decision or to be used.
select count(*) as proposals
from proposals p
where p.tenant = %(tenant)s and p.proposed_by = %(principal)s
    and p.rejected_at is null and p.used_at is null and p.expires_at > now()

-- name: trim_proposals
-- Forget proposals that ended long ago, with their approvals.
with old as (
    select id from proposals
    where tenant = %(tenant)s and coalesce(used_at, rejected_at, expires_at) <= now() - make_interval(days => %(days)s)
    limit %(limit)s
    for update skip locked
), gone as (
    delete from proposals p using old where p.tenant = %(tenant)s and p.id = old.id returning 1
)
select count(*) as trimmed from gone

-- name: approve_proposal
-- Note an approval; a principal's second one changes nothing.
insert into approvals (tenant, proposal_id, principal)
values (%(tenant)s, %(id)s, %(principal)s)
on conflict do nothing

-- name: lock_proposal
-- A proposal, locked.
select p.id from proposals p
where p.tenant = %(tenant)s and p.id = %(id)s
for update

-- name: proposal_by_id
-- A proposal and who approves it.
select {proposal_columns}
from {proposal_tables}
where p.tenant = %(tenant)s and p.id = %(id)s

-- name: reject_proposal
-- End a proposal.
update proposals set rejected_at = now() where tenant = %(tenant)s and id = %(id)s

-- name: use_proposal
-- Use up a proposal.
update proposals set used_at = now() where tenant = %(tenant)s and id = %(id)s

-- name: lock_open_proposals
-- Proposals of a change of an edge or node that neither expired nor ended, oldest first, locked. As jsonb compares: the
-- order of keys does not matter, nor whether a number is written 1 or 1.0.
select p.id
from proposals p
where p.tenant = %(tenant)s and p.target_id = %(target_id)s and p.action = %(action)s
    and p.new_sector is not distinct from %(new_sector)s::text and p.covers @> %(covers)s::uuid[]
    and p.change is not distinct from %(change)s::jsonb
    and p.rejected_at is null and p.used_at is null and p.expires_at > now()
order by p.created_at, p.id
for update

-- name: lock_open_sharing
-- Proposals to share a memory that neither expired nor ended, oldest first, locked.
select p.id
from proposals p
where p.tenant = %(tenant)s and p.target_id = %(target_id)s and p.action = 'share'
    and p.rejected_at is null and p.used_at is null and p.expires_at > now()
order by p.created_at, p.id
for update

-- name: proposals_by_id
-- Proposals and who approves them, oldest first.
select {proposal_columns}
from {proposal_tables}
where p.tenant = %(tenant)s and p.id = any(%(ids)s)
order by p.created_at, p.id

-- name: list_proposals
-- The newest proposals, of one state or of all, from below a position on; one more than a page shows tells of another.
-- Those to share something private are for who made them and for who may decide.
select told.*
from (
    select {proposal_columns}
    from {proposal_tables}
    where p.tenant = %(tenant)s and (p.action <> 'share' or p.proposed_by = %(reader)s::text or %(decides)s)
        and (%(before)s::timestamptz is null or (p.created_at, p.id) < (%(before)s::timestamptz, %(before_id)s::uuid))
) as told
where %(state)s::text is null or told.state = %(state)s
order by told.created_at desc, told.id desc
limit %(limit)s
