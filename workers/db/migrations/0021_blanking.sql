-- What the audit log says in somebody's own words goes when what it is about is erased: reasons, notes of outcomes, and
-- the properties of edges and nodes. The entries stay: who did what, when, by which command.

-- What names the ends of a link, in entries that give a reason: its reason may quote a memory at either end.
create index audit_log_reason_source on audit_log (tenant, (old ->> 'source_id'))
    where reason is not null and old ? 'source_id';
create index audit_log_reason_target on audit_log (tenant, (old ->> 'target_id'))
    where reason is not null and old ? 'target_id';
create index audit_log_wordy on audit_log (tenant, id)
    where reason is not null or old @? '$.properties.*' or new @? '$.properties.*';

-- An entry's old or new values without those of properties, whose names and number are theirs too.
create function without_properties(told jsonb) returns jsonb
language sql immutable parallel safe
return case when told ? 'properties' then told || '{"properties": {}}' else told end;

-- Blank the entries about memories, edges and nodes of the tenant that was entered, which have to be gone already: so the
-- workers' role can take words out of the log together with what they are about, and in no other way. `by` is the command
-- that erases them: its own reason stays.
create function blank_audit(erased uuid[], by uuid) returns void
language sql volatile security definer set search_path = public, pg_temp
begin atomic
    with entered as (
        select nullif(current_setting('app.tenant', true), '')::integer as tenant
    ), gone as (
        select t.tenant, one as id
        from entered t, unnest(erased) as one
        where not exists (select from nodes n where n.tenant = t.tenant and n.id = one)
            and not exists (select from edges e where e.tenant = t.tenant and e.id = one)
    ), about as (
        select a.tenant, a.id, a.action, a.command_id
        from gone g
        join audit_log a on a.tenant = g.tenant and a.target_id = g.id
    ), told as (
        select tenant, id from about
        union
        select a.tenant, a.id
        from gone g
        join audit_log a on a.tenant = g.tenant and a.reason is not null and a.old ? 'source_id'
            and a.old ->> 'source_id' = g.id::text
        union
        select a.tenant, a.id
        from gone g
        join audit_log a on a.tenant = g.tenant and a.reason is not null and a.old ? 'target_id'
            and a.old ->> 'target_id' = g.id::text
        union
        -- The note of an outcome stands in one entry for each of its memories.
        select a.tenant, a.id
        from about o
        join audit_log a on a.tenant = o.tenant and a.command_id = o.command_id and a.action = 'outcome'
        where o.action = 'outcome'
    )
    update audit_log a
    set reason = null, old = without_properties(a.old), new = without_properties(a.new)
    from (select tenant, id from told order by tenant, id) as t
    where a.tenant = t.tenant and a.id = t.id and a.command_id is distinct from by
        and (a.reason is not null or a.old @? '$.properties.*' or a.new @? '$.properties.*');
end;
revoke all on function blank_audit(uuid[], uuid) from public;
grant execute on function blank_audit(uuid[], uuid) to engramq_worker;

-- Blank so many entries of the tenant that was entered and is being deleted, which has to hold no node any more; how many
-- they were. What is said of the deletion itself stays.
create function blank_audit_of_deleted(most integer) returns bigint
language sql volatile security definer set search_path = public, pg_temp
begin atomic
    with few as (
        select a.tenant, a.id
        from audit_log a
        where a.tenant = nullif(current_setting('app.tenant', true), '')::integer
            and not exists (select from nodes n where n.tenant = a.tenant)
            and a.action <> 'delete_tenant'
            and (a.reason is not null or a.old @? '$.properties.*' or a.new @? '$.properties.*')
        order by a.id
        limit most
    ), blanked as (
        update audit_log a
        set reason = null, old = without_properties(a.old), new = without_properties(a.new)
        from few f
        where a.tenant = f.tenant and a.id = f.id
        returning 1
    )
    select count(*) from blanked;
end;
revoke all on function blank_audit_of_deleted(integer) from public;
grant execute on function blank_audit_of_deleted(integer) to engramq_worker;
