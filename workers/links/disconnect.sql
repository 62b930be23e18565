-- name: insert_tombstone
-- Keep automatic writers from making a link again.
insert into link_tombstones (tenant, low_id, high_id) values (%(tenant)s, %(low)s, %(high)s)
on conflict do nothing
