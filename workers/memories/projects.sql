-- name: of_project
-- Memories of a project from an id on, stored until a time: a few.
select m.node_id as id
from memories m
where m.tenant = %(tenant)s and m.project = %(project)s and m.node_id > %(after_id)s and m.created_at <= %(until)s
order by m.node_id
limit %(limit)s

-- name: rename_project_of
-- Put locked memories into another project, those that are still in this one.
update memories set project = %(new_name)s, updated_at = now()
where tenant = %(tenant)s and node_id = any(%(ids)s) and project = %(project)s
returning node_id as id

-- name: rename_project_of_tokens
-- Have the tokens of a project name another one.
update tokens set project = %(new_name)s
where tenant = %(tenant)s and project = %(project)s
returning id

-- name: others_in_project
-- What time it is, and whether a project has memories that the caller sees and no try of this command put there.
select now() as now, exists (
    select from memories m
    where m.tenant = %(tenant)s and m.project = %(project)s and not exists (
        select from audit_log a
        where a.tenant = %(tenant)s and a.command_id = %(command_id)s and a.target_id = m.node_id
    )
) as others

-- name: renamed_by
-- How many memories that its principal sees a command has put into another project so far.
select count(*) as memories from audit_log
where tenant = %(tenant)s and command_id = %(command_id)s and action = 'update'
