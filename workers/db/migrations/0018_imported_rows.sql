-- Which rows of import files have gone in, for good: a file that was edited is imported again without doubling what is
-- there, and what was forgotten or erased since stays out.

-- A row by the digest of what it says. No foreign key: the digest outlives its memory. A random key costs each insert a
-- page of its own at worst, which is little beside the vector index.
create table imported_rows (
    tenant    integer not null,
    digest    bytea not null check (octet_length(digest) = 16),
    memory_id uuid not null,     -- that the row became
    trusted   boolean not null,  -- when it went in: an untrusted importer keeps no trusted row out
    primary key (tenant, digest)
);
alter table imported_rows enable row level security;
create policy own_tenant on imported_rows to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer)
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer);
grant select, insert, delete on imported_rows to engramq_worker;
