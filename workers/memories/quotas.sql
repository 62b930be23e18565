-- name: stored_amounts
-- How many memories each principal has in a tenant, and bytes of their contents, whatever their state.
select m.created_by as principal, count(*) as memories, sum(octet_length(m.content))::bigint as bytes
from memories m
where m.tenant = %(tenant)s
group by 1
