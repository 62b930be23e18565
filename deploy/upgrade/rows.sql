-- How many rows each table has, by schema and name; those of partitions each by itself. For psql.
select format('select %L, count(*) from %I.%I', format('%I.%I', n.nspname, c.relname), n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname not like 'pg\_%' and n.nspname <> 'information_schema'
order by 1
\gexec
