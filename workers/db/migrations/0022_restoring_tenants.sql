-- Restoring a tenant from an export, its entries of the audit log with their numbers.

-- Let entries that are written from now on have higher numbers than this one: those of an export may come from another
-- database. Other transactions take numbers meanwhile, so some are left out, lest one is given twice. The bound is that
-- of the format: the numbers are everybody's, and nobody may use them up.
create function advance_audit_ids(last bigint) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    numbers constant text := pg_get_serial_sequence('audit_log', 'id');
    given bigint;
begin
    if last > 9007199254740992 then
        raise exception 'an audit entry has too high a number' using errcode = 'numeric_value_out_of_range';
    end if;
    execute format('select last_value from %s', numbers) into given;
    if given < last then
        perform setval(numbers, last + 1000);
    end if;
end
$$;
revoke all on function advance_audit_ids(bigint) from public;
grant execute on function advance_audit_ids(bigint) to engramq_worker;
