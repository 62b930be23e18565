-- fragment: words_naming
-- For each word of a topic the query of what holds it: all its lexemes in one of the namespace's languages. A stop word
-- of the namespace's own language has none. Allergic is of allergies: English stems of y and ies leave an i.
select (
    select string_agg('(' || of_one || ')', ' | ')
    from unnest({all_languages}) as language
    cross join lateral (
        select
            string_agg(
                regexp_replace(lexeme_query(%(tenant)s, lexeme)::text, '(\w\w\w\w\w\w)i''$', '\1'':*'), ' & '
            ) as of_one
        from unnest(words_in(language, word)) as lexeme
    ) by_language
) as query

-- name: topic_named
-- How many memories name a topic, by month of a zone and thread, and how many of them a search found: those that hold all of some
-- words, and one of others if there are any.
with naming as materialized (
    select concat_ws(
        ' & ',
        (select string_agg('(' || query || ')', ' & ')
         from unnest(%(all)s::text[]) as word cross join lateral ({words_naming}) as naming),
        (select '(' || string_agg(query, ' | ') || ')'
         from unnest(%(one)s::text[]) as word cross join lateral ({words_naming}) as naming)
    )::tsquery as query
)
select
    to_char(coalesce(m.occurred_at, m.created_at) at time zone %(zone)s::text, 'YYYY-MM') as month, m.thread,
    count(*) as memories, count(*) filter (where m.node_id = any(%(found)s::uuid[])) as found
from memories_in_namespace m
where m.lexemes @@ (select query from naming) and {chosen}
group by month, m.thread
