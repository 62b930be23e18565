-- name: imported_rows
-- What became of rows that went in before. Of a memory that was erased the partition is the one that it went into, unless
-- it was promoted since.
select r.digest, r.memory_id, case when m.node_id is null then 'erased' else {absence} end as absence,
    case when n.partition is not null then n.partition
        when r.trusted or exists (
            select from audit_log a
            where a.tenant = %(tenant)s and a.target_id = r.memory_id and a.action = 'promote'
        ) then 'trusted'
        else 'untrusted' end as partition
from imported_rows r
left join nodes n on n.tenant = r.tenant and n.id = r.memory_id
left join memories m on m.tenant = n.tenant and m.node_id = n.id and m.partition = n.partition
where r.tenant = %(tenant)s and r.digest = any(%(digests)s::bytea[])

-- name: forget_imported_rows
-- Let rows go in again.
delete from imported_rows where tenant = %(tenant)s and digest = any(%(digests)s::bytea[])
