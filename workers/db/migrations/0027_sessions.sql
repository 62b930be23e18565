-- Settings of one transaction, for sessions that somebody else has between two transactions: behind a pooler nothing
-- else holds. Each is read back: without the bounds of time a paused worker would keep its locks, and nobody would see.
create function take_settings(names text[], wanted text[]) returns void
language plpgsql as $$
begin
    for each in 1 .. cardinality(names) loop
        perform set_config(names[each], wanted[each], true);
        if current_setting(names[each]) is distinct from wanted[each] then
            raise exception 'the setting % was not taken', names[each] using errcode = 'EQ002';
        end if;
    end loop;
end
$$;

-- Whether this server is a standby of this cluster that has replayed a position of the primary's log; it fails where it
-- is not, so that what follows in the same transaction is not done. Its own log says by which timeline it goes: one that
-- went another way after a failover may have got further, and lacks what was written since.
create function require_replayed(cluster bigint, timeline integer, reached pg_lsn) returns void
language plpgsql stable as $$
begin
    if not pg_is_in_recovery() then
        raise exception 'no standby' using errcode = 'EQ003';
    end if;
    if pg_last_wal_replay_lsn() is null or pg_last_wal_replay_lsn() < reached then
        raise exception 'not replayed yet' using errcode = 'EQ004';
    end if;
    if (select system_identifier from pg_control_system()) <> cluster
        or (select greatest(c.timeline_id, r.min_recovery_end_timeline) from pg_control_checkpoint() c, pg_control_recovery() r)
            <> timeline then
        raise exception 'another history' using errcode = 'EQ003';
    end if;
end
$$;
