-- Staging tables of SQLite, in which an export's records are checked against each other before anything is written.
-- The queries are read by export_rules.py alone; they are none of PostgreSQL's.

-- sqlite: schema
pragma journal_mode = off;
pragma synchronous = off;
pragma temp_store = file;
create table memories (
    id        blob primary key,
    line      integer not null,
    trusted   integer not null,
    promoted  integer not null,  -- trusted, and untrusted once
    successor blob,              -- what supersedes it
    owner     text               -- whose it is while it is private; null: everybody's
) without rowid;
create table pointers (          -- what memories say supersedes what; they name memories that may come later
    line  integer not null,
    field text not null,         -- of the record: superseded_by or supersedes
    old   blob not null,
    new   blob not null
);
create table nodes (id blob primary key) without rowid;
create table once (kind text, said text, primary key (kind, said)) without rowid;  -- what no two records may share
begin;

-- sqlite: add_memory
insert into memories values (:id, :line, :trusted, :promoted, :successor, :owner)

-- sqlite: add_pointer
insert into pointers values (:line, :field, :old, :new)

-- sqlite: add_node
insert into nodes values (:id)

-- sqlite: add_once
insert or ignore into once values (:kind, :said)

-- sqlite: forget_once
-- Forget what is there once among the records of one type, when those of another type begin.
delete from once where kind = 'record'

-- sqlite: memory
select trusted, promoted, successor, owner from memories where id = :id

-- sqlite: node
select 1 from nodes where id = :id

-- sqlite: wrong_pointer
-- The first supersession that names no memory (`missing`), is of two that not the same people see (`apart`), or lets an
-- untrusted memory take a trusted one's place.
select p.line, p.field, case when old.id is null then p.old when new.id is null then p.new end as missing,
    old.owner is not new.owner as apart
from pointers p
left join memories old on old.id = p.old
left join memories new on new.id = p.new
where old.id is null or new.id is null or old.owner is not new.owner or old.trusted > new.trusted
order by p.line
limit 1

-- sqlite: index_successors
create index successors on memories (successor) where successor is not null

-- sqlite: cycle
-- The first memory from which the way over successors never ends: all ways that end are gone back from their ends.
with recursive ended (id) as (
    select id from memories where successor is null
    union all
    select m.id from ended e join memories m on m.successor = e.id
)
select line from memories where id not in (select id from ended) order by line limit 1
