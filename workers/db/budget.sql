-- name: connection_limits
-- What bounds the connections here, and who has them: the server's limit, the database's and the login's. A worker
-- process is known by the name of its sessions.
with limits as (
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            - coalesce(current_setting('reserved_connections', true)::int, 0) as most,
        null::oid as database, null::oid as login
    union all
    select datconnlimit, oid, null from pg_database where datname = current_database() and datconnlimit >= 0
    union all
    select rolconnlimit, null, oid from pg_roles where rolname = session_user and rolconnlimit >= 0
)
select l.most,
    count(*) filter (where a.application_name not like %(ours)s)::int as others,
    count(*) filter (where a.application_name like %(ours)s)::int as ours,
    (count(distinct a.application_name) filter (where a.application_name like %(ours)s))::int as workers
from limits l
join pg_stat_activity a on a.datid is not null
    and a.datid = coalesce(l.database, a.datid) and a.usesysid = coalesce(l.login, a.usesysid)
group by l.most, l.database, l.login
