-- Restoring a tenant from an export, its entries of the audit log with their numbers.

-- Up to which number an entry of an export keeps it; one with a higher number gets one of its own. All tenants' entries
-- are numbered by one sequence, and no export may move it near its end, nor to where other exports could not be restored:
-- this is what 1,000 entries a second take 35 years for, and an eight millionth of what there is.
create function audit_ids_kept() returns bigint
language sql immutable parallel safe
return 1099511627776;

-- Let entries that are written from now on have higher numbers than those up to this one that are kept: they may come
-- from another database. Other transactions take numbers meanwhile, so some are left out, lest one is given twice.
create function advance_audit_ids(last bigint) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    numbers constant text := pg_get_serial_sequence('audit_log', 'id');
    kept constant bigint := least(last, audit_ids_kept());
    given bigint;
begin
    execute format('select last_value from %s', numbers) into given;
    if given < kept then
        perform setval(numbers, kept + 1000);
    end if;
end
$$;
revoke all on function advance_audit_ids(bigint) from public;
grant execute on function advance_audit_ids(bigint) to engramq_worker;

-- A memory names what it superseded last. Former versions left the name of one that was erased, which no export may have.
update memories m set supersedes = null
where m.supersedes is not null
    and not exists (select from memories o where o.tenant = m.tenant and o.node_id = m.supersedes);
