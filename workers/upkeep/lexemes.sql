-- name: forget_lexeme_counts
-- Remove the counts of a namespace's partition before new ones are written.
delete from lexeme_counts where tenant = %(tenant)s and partition = %(partition)s
returning 1 as gone

-- name: count_lexemes
-- Count in how many of the newest memories of a partition each lexeme is, in proportion to all of them. Rare lexemes
-- are left out: a lexeme that is not in the table is rare.
with total as (
    select count(*) as memories from memories
    where tenant = %(tenant)s and partition = %(partition)s
), counted as (
    select stat.word, ceil(stat.ndoc * greatest(1.0, total.memories::numeric / %(sample)s))::bigint as memories
    from total, ts_stat(format(
        'select lexemes from memories where tenant = %%L and partition = %%L order by created_at desc limit %%s',
        %(tenant)s, %(partition)s::text, %(sample)s::bigint)) as stat
)
insert into lexeme_counts (tenant, partition, lexeme, memories)
select %(tenant)s, %(partition)s, word, memories from counted where memories >= %(rare)s
on conflict (tenant, partition, lexeme) do update set memories = excluded.memories
returning 1 as kept

-- name: partition_size
-- How many memories a partition of a namespace holds, counted up to a limit.
select count(*) as memories
from (
    select from memories where tenant = %(tenant)s and partition = %(partition)s limit %(limit)s
) counted
