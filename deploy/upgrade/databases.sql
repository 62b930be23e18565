-- All databases but those that every cluster has.
select datname from pg_database where not datistemplate and datname <> 'postgres' order by 1;
