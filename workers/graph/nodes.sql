-- name: nodes_named
-- Every node of these names, oldest first, protected from deletion (the key share that a foreign key takes).
select n.id, n.label, n.name
from nodes n
where n.tenant = %(tenant)s and n.partition = 'trusted' and n.name = any(%(names)s::text[])
order by n.created_at, n.id
for key share

-- name: insert_node
-- Make a named node; no row when it is there already.
insert into nodes (id, tenant, label, name, partition, properties, created_by, updated_by)
values (%(id)s, %(tenant)s, %(label)s, %(name)s, 'trusted', %(properties)s, %(writer)s, %(writer)s)
on conflict (tenant, label, name) where name is not null do nothing
returning id

-- name: lock_node
-- A named node, locked for a change of its properties.
select n.id, n.label, n.name, n.properties
from nodes n
where n.tenant = %(tenant)s and n.label = %(label)s and n.name = %(name)s
for no key update

-- name: update_node
-- Replace the properties of a locked node.
update nodes set properties = %(properties)s, updated_at = now(), updated_by = %(writer)s
where tenant = %(tenant)s and id = %(id)s

-- name: lock_node_for_deletion
-- A named node by its id; nobody can add an edge to it from now on.
select n.id, n.label
from nodes n
where n.tenant = %(tenant)s and n.name is not null and n.id = %(id)s
for update
