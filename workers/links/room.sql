-- name: linked_with
-- The memories that a memory has links with, those of its supersessions left out, and the one that replaced it.
select e.target_id as id from edges e
where e.tenant = %(tenant)s and e.layer = 'association' and e.source_id = %(id)s and e.relation <> 'supersedes'
union
select e.source_id from edges e
where e.tenant = %(tenant)s and e.layer = 'association' and e.target_id = %(id)s and e.relation <> 'supersedes'
union
select m.superseded_by from memories m
where m.tenant = %(tenant)s and m.node_id = %(id)s and m.superseded_by is not null
