-- name: insert_tombstone
-- Keep automatic writers from making a link again.
insert into link_tombstones (namespace, low_id, high_id) values (%(namespace)s, %(low)s, %(high)s)
on conflict do nothing
