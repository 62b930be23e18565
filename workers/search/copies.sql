-- fragment: oldest
-- The oldest transaction that is under way.
pg_snapshot_xmin(pg_current_snapshot())::text

-- fragment: server
-- What changes when the server has recovered from a crash.
concat(pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time())

-- name: question_lexemes
-- The words of questions, an array of texts, as the full-text index has them, without stop words; to look for those of an
-- empty text would take as long.
select json_agg(array(
    select lexeme_prefix(%(tenant)s) || lexeme
    from unnest(case when asked.question <> '' then words_asked({all_languages}, asked.question) end) as lexeme
) order by place)::text
from json_array_elements_text(%(questions)s::json) with ordinality as asked (question, place)

-- name: writes_seen
-- Note for `copy_state` which writes of memories are committed, by the numbers of the last; nothing where some is under way.
-- It comes in a statement before, whose snapshot is older than what it reads. A standby sees neither each number, of which
-- the log brings one in 33, nor who holds the lock.
with seen as materialized (
    select concat_ws(
        '/', %(tenant)s::integer, coalesce(pg_sequence_last_value('memories_written'), 0),
        coalesce(pg_sequence_last_value(writes_of(%(tenant)s)::regclass), 0)
    ) as numbers
)
select set_config(
    'app.memories_written',
    case when pg_is_in_recovery() then '' when numbers = %(written)s or not exists (
        select from pg_locks
        where locktype = 'advisory' and classid = 1164012 and objid in (1, %(tenant)s %% 32 + 2) and objsubid = 2
    ) then numbers else '' end,
    true
)
from seen

-- name: copy_state
-- How many memories of the namespace everybody sees and how many are the viewer's own, and which of them a copy may lack
-- that was made when %(since)s was the oldest transaction under way: those whose row was written by it or by a later one. (Whether a snapshot sees a row cannot be said
-- more exactly: subtransactions have ids of their own.) A row that is gone shows in the number. `server` changes when the
-- server has recovered from a crash, which may take back what it showed and give the same transaction ids again. Where
-- nobody has written since the write %(written)s, which the copy has seen, no row is looked at.
with since as materialized (
    select age((%(since)s::bigint %% 4294967296)::text::xid) as age
), is_same as materialized (
    select %(written)s <> '' and current_setting('app.memories_written', true) = %(written)s as so
)
select json_build_object(
    'is_same', (select so from is_same),
    'written', coalesce(current_setting('app.memories_written', true), ''),
    'shared', count(*) filter (where m.owner is null),
    'own', count(*) filter (where m.owner is not null),
    -- Ages far below zero are those of rows that are older than ages can tell.
    'changed', coalesce(json_agg(m.node_id) filter (where age(m.xmin) between -100000 and since.age), '[]'),
    'since', {oldest},
    'server', {server},
    'now', extract(epoch from now())
)::text
from (
    select s.node_id, s.xmin, s.owner from memories s
    where not (select so from is_same) and s.tenant = %(tenant)s and s.owner is null and s.partition in (%(first)s, %(last)s)
    union all
    select o.node_id, o.xmin, o.owner from memories o
    where not (select so from is_same) and o.tenant = %(tenant)s and o.owner between %(owner_first)s and %(owner_last)s
        and o.partition in (%(first)s, %(last)s)
) m, since

-- name: copy_ids
-- The memories of a namespace that everybody or the viewer sees, and what `copy_state` will be asked about them.
select
    coalesce(array_agg(m.node_id order by m.node_id), '{}') as ids,
    {oldest} as since,
    {server} as server,
    extract(epoch from now())::float8 as now
from memories m
where m.tenant = %(tenant)s and m.partition in (%(first)s, %(last)s)

-- name: copy_rows
-- What ranking needs to know of memories, whatever their state; see the fragments `visible`, `chosen` and `candidate`.
select
    m.node_id as id, m.partition = 'trusted' as is_trusted, m.thread, m.position, m.speaker,
    coalesce(m.occurred_at, m.created_at) as moment, m.created_at, m.told_on, {asks} as asks, {tells_self} as tells_self,
    coalesce(m.sector, 'semantic') as sector, coalesce(m.sector_source = 'none', false) as fits_none,
    m.vector_key, m.repeated,
    {sector_confidence} as sector_confidence, m.tags, m.project, m.confidence, m.active_hours,
    m.state = 'archived' or m.verification = 'rejected' as hidden, {superseded} as superseded,
    coalesce(m.valid_from, m.created_at) as begins, least(m.valid_until, m.superseded_from) as ends, m.expires_at as expires,
    case when m.state = 'active' then m.model_id end as model_id, halfvec_send(m.embedding) as embedding,
    case when m.pieces is not null then array(select halfvec_send(piece) from unnest(m.pieces) as piece) end as pieces,
    tsvector_to_array(m.lexemes) as lexemes
from unnest(%(ids)s::uuid[]) as wanted (id)
join memories m on m.tenant = %(tenant)s and m.node_id = wanted.id and m.partition in (%(first)s, %(last)s)
