-- Changes of the embedding model: vectors of others are made anew in the background, and a model that has no vectors left
-- loses its index.

-- chosen_at: when the latest process began that makes vectors with it: of several models the last chosen is the one that
-- all vectors become. used_at: when somebody last was about to write one; within minutes. retired_at: without vectors, and
-- without an index.
alter table embedding_models
    add column chosen_at timestamptz not null default now(), add column used_at timestamptz not null default now(),
    add column retired_at timestamptz;
update embedding_models set chosen_at = created_at;

-- The change that is under way, as the process that does it tells; no row when there is none. It is about the whole store.
create table reembedding (
    model_id  smallint primary key references embedding_models (id),  -- what all vectors become
    total     bigint not null,            -- vectors of other models when it began
    remaining bigint not null,
    per_s     double precision,           -- memories a second; null until some are done
    problem   text,                       -- why it waits; null while it goes on
    worker    uuid,                       -- the process that is at it; null between two looks
    began_at  timestamptz not null default now(),
    told_at   timestamptz not null default now()
) with (fillfactor = 50);
grant select, insert, update, delete on reembedding to engramq_worker;

-- Return the id of an embedding model, making its row and its vector index when it is new or retired. The workers' role
-- cannot make indexes, hence security definer; the arguments reach no SQL text but as numbers.
create or replace function register_embedding_model(model_name text, model_sha256 text, model_dimensions integer)
returns smallint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_id smallint;
begin
    select id into found_id from embedding_models
    where name = model_name and sha256 = model_sha256 and dimensions = model_dimensions and retired_at is null;
    if found then
        return found_id;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('engramq.embedding_models', 0));
    insert into embedding_models (name, sha256, dimensions)
    values (model_name, model_sha256, model_dimensions)
    on conflict (name, sha256, dimensions) do update set retired_at = null, used_at = now()
    returning id into strict found_id;
    perform make_vector_index(found_id);
    return found_id;
end
$$;

-- Note that a process which began so many seconds ago is about to write vectors of a model; return its id.
create function use_embedding_model(
    model_name text, model_sha256 text, model_dimensions integer, began_s_ago double precision
) returns smallint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_id smallint;
begin
    loop
        found_id := register_embedding_model(model_name, model_sha256, model_dimensions);
        update embedding_models e set
            used_at = now(), chosen_at = greatest(e.chosen_at, now() - make_interval(secs => began_s_ago))
        where e.id = found_id and e.retired_at is null;  -- waits for whoever retires it
        if found then
            return found_id;
        end if;
    end loop;
end
$$;
revoke all on function use_embedding_model(text, text, integer, double precision) from public;
grant execute on function use_embedding_model(text, text, integer, double precision) to engramq_worker;

-- How many vectors there are of each model, whosever they are. Reads all rows: 1 s for a million.
create function vectors_by_model() returns table (model_id smallint, vectors bigint)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select m.model_id, count(*) from memories m where m.model_id is not null group by m.model_id;
end;
revoke all on function vectors_by_model() from public;
grant execute on function vectors_by_model() to engramq_worker;

-- Retire models that have no vectors left and that nobody has been about to use for so many seconds; the last chosen one
-- stays. Return how many. Who writes a vector locks the row of its model by the foreign key, so none comes in between; who
-- comes later has noted it first, which undoes the retirement. Dropping an index waits for who uses the table, and all
-- others behind it, for a moment only: what is still in use is left to the next time.
create function retire_embedding_models(unused_s double precision) returns integer
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    model smallint;
    retired integer := 0;
begin
    perform pg_advisory_xact_lock(hashtextextended('engramq.embedding_models', 0));
    perform set_config('lock_timeout', '100ms', true);
    for model in
        select id from embedding_models
        where retired_at is null and used_at < now() - make_interval(secs => unused_s)
            and id <> (select id from embedding_models where retired_at is null order by chosen_at desc, id desc limit 1)
        order by id
    loop
        begin
            perform from embedding_models
            where id = model and used_at < now() - make_interval(secs => unused_s) for update;
            if found and not exists (select from memories m where m.model_id = model) then
                execute format('drop index if exists %I', 'memories_embedding_' || model);
                delete from loads where model_id = model;
                update embedding_models set retired_at = now() where id = model;
                retired := retired + 1;
            end if;
        exception when lock_not_available then
            null;
        end;
    end loop;
    return retired;
end
$$;
revoke all on function retire_embedding_models(double precision) from public;
grant execute on function retire_embedding_models(double precision) to engramq_worker;
