-- name: stored_amounts
-- How many memories each principal has in a tenant, and bytes of their contents and metadata, whatever their state.
select
    m.created_by as principal, count(*) as memories,
    sum(octet_length(m.content)
        + case when m.metadata = '{}' then 0 else octet_length(m.metadata::text) end)::bigint as bytes
from memories m
where m.tenant = %(tenant)s
group by 1
