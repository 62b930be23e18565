-- name: forget_lexeme_counts
-- Remove the counts of a namespace's partition before new ones are written.
delete from lexeme_counts where tenant = %(tenant)s and partition = %(partition)s
returning 1 as gone

-- name: count_lexemes
-- Count in how many of the newest memories of a partition each lexeme is, in proportion to all of them. Rare lexemes
-- are left out: a lexeme that is not in the table is rare. Written in one order, so that two counts at once take turns.
with total as materialized (
    select count(*) as memories from memories
    where tenant = %(tenant)s and partition = %(partition)s
), counted as (
    select word, ceil(count(*) * greatest(1.0, (select memories from total)::numeric / %(sample)s))::bigint as memories
    from (
        select lexemes from memories
        where tenant = %(tenant)s and partition = %(partition)s
        order by created_at desc
        limit %(sample)s
    ) newest
    cross join lateral unnest(tsvector_to_array(newest.lexemes)) as word
    group by word
)
insert into lexeme_counts (tenant, partition, lexeme, memories)
select %(tenant)s, %(partition)s, word, memories from counted where memories >= %(rare)s order by word
on conflict (tenant, partition, lexeme) do update set memories = excluded.memories
returning 1 as kept

-- name: worth_counting
-- Whether a partition of a namespace holds so many memories, or its lexemes have been counted: an erasure takes no counts.
select (
    select count(*) >= %(least)s
    from (
        select 1 as found from memories where tenant = %(tenant)s and partition = %(partition)s limit %(least)s
    ) counted
) or exists (
    select from lexeme_counts where tenant = %(tenant)s and partition = %(partition)s
) as so
