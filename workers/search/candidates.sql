-- fragment: chosen
-- What a search may find: the visibility rule and the caller's filters.
{visible}
and {in_sectors}
and (%(min_sector_confidence)s::real is null or {sector_confidence} >= %(min_sector_confidence)s::real)
and {in_project_asked}
and (%(tags)s::text[] is null or {tagged})
and (%(thread)s::text is null or m.thread = %(thread)s)
and {in_span}

-- fragment: sector_confidence
-- How sure the sector of a memory m is, 0 to 1; null where it has none. What somebody chose is sure.
case m.sector_source when 'manual' then 1::real when 'auto' then m.sector_confidence end

-- fragment: memories_with
-- How many memories have a word, 0 where it is rare.
coalesce(
    (select sum(c.memories)::float8 from lexeme_counts c
     where c.tenant = %(tenant)s and c.partition = any(%(partitions)s::text[])
        and c.lexeme = lexeme_prefix(%(tenant)s) || word.lexeme),
    0)

-- fragment: full_text
-- The text arm. A word that n of the namespace's N memories have weighs ln(1 + (N - n + .5) / (n + .5)); a memory has
-- the sum of its words, less the longer it is. The rarest words are looked up in the index, one lookup each, until they
-- make %(postings)s rows (lexeme_counts knows the common ones; others are rare) and surely enough candidates. The rest
-- only add to what was found without them; where even the rarest is common, what has all words is looked up besides, since
-- the rarest brings only some of its memories. Other spellings of dates and numbers are looked up too, and weigh nothing in
-- what a memory could have of the question. A memory that has all words of another writing of a value counts as if it had
-- the words of the question for it; a writing whose words are all common is left out, since its memories would take the
-- places of those that the question's own words find.
written_otherwise as materialized (
    select each.lexeme, string_agg('(' || way.query || ')', ' | ') as query
    from unnest(%(written)s::text[], %(ways)s::text[]) as value (written, ways)
    cross join lateral (
        select string_agg('(' || lexeme_query(%(tenant)s, word.lexeme)::text || ')', ' & ') as query
        from string_to_table(value.ways, E'\n') as text
        cross join lateral unnest(words_asked({all_languages}, text)) as word (lexeme)
        group by text
        having min({memories_with}) <= %(candidates)s
    ) way
    cross join lateral unnest(words_asked({all_languages}, value.written)) as each (lexeme)
    group by each.lexeme
), asked as materialized (
    select
        lexeme, is_spelling,
        concat_ws(
            ' | ', lexeme_query(%(tenant)s, lexeme)::text,
            (select w.query from written_otherwise w where w.lexeme = word.lexeme and not word.is_spelling)
        )::tsquery as query,
        {memories_with} as memories
    from (
        select lexeme, bool_and(is_spelling) as is_spelling
        from (
            select unnest(words_asked({all_languages}, %(question)s::text)) as lexeme, false as is_spelling
            union all
            select unnest(words_asked({all_languages}, %(spellings)s::text)), true where %(spellings)s::text <> ''
        ) each
        group by lexeme
    ) word
), ranked as materialized (
    select
        query, memories, is_spelling, row_number() over (order by is_spelling, memories, lexeme) as place,
        sum(memories) over rarest <= %(postings)s or sum(memories) over rarest - memories < %(candidates)s as rare
    from asked
    window rarest as (order by memories, lexeme rows unbounded preceding)
), common as materialized (
    select query, is_spelling, ln(1 + (greatest(%(size)s, memories) - memories + 0.5) / (memories + 0.5)) as weight
    from ranked
    where not rare and place <= %(words)s
), together as materialized (
    select min(place) as place, string_agg('(' || query::text || ')', ' & ')::tsquery as query
    from ranked
    where not is_spelling and place <= %(words)s
    having min(memories) > %(postings)s
), to_look_up as materialized (
    select place, is_spelling, memories, query, %(postings)s as most from ranked where rare and place <= %(words)s
    union all
    select t.place, false, r.memories, t.query, %(candidates)s from together t join ranked r on r.place = t.place
), looked_up as materialized (
    select distinct word.place, word.is_spelling, word.memories, hit.id, hit.words, hit.besides
    from to_look_up word
    cross join lateral (
        select
            m.node_id as id, {words} as words,
            (select sum(c.weight) from common c where m.lexemes @@ c.query) as besides
        from memories_in_namespace m
        where m.lexemes @@ word.query and {chosen}
        limit word.most
    ) hit
), counted as (
    select place, is_spelling, greatest(count(*)::float8, max(memories)) as memories
    from looked_up
    group by place, is_spelling
), weighed as (
    select place, is_spelling, ln(1 + (greatest(%(size)s, memories) - memories + 0.5) / (memories + 0.5)) as weight from counted
), by_text as materialized (
    select
        h.id,
        (sum(w.weight) + coalesce(max(h.besides), 0)) / (1 + max(h.words) / %(half_length)s::float8) as lexical
    from looked_up h
    join weighed w on w.place = h.place
    group by h.id
), asked_weight as materialized (
    -- What a memory would have that has all words; a word that no memory has weighs most.
    select coalesce((select sum(weight) from weighed where not is_spelling), 0)
        + coalesce((select sum(weight) from common where not is_spelling), 0)
        + ln(1 + (%(size)s + 0.5) / 0.5) * (
            select count(*) from ranked r
            where r.rare and not r.is_spelling and r.place <= %(words)s and not exists (select from counted c where c.place = r.place)
        ) as weight
), by_day as materialized (
    -- What is of the days that a question asks for which asks for nothing else: found whatever its words.
    select id from (
        select m.node_id as id, m.told_on is null as merely_stored
        from memories_in_namespace m
        where %(asked_days)s::datemultirange is not null and {chosen} and {of_days}
        limit 10 * %(postings)s
    ) of_days
    order by merely_stored, id desc
    limit %(candidates)s
)

-- fragment: of_days
-- Whether a memory m is of days: of that which it tells of, else of that on which it was stored.
(
    (m.told_on <@ %(asked_days)s::datemultirange
        and m.told_on >= lower(%(asked_days)s::datemultirange) and m.told_on < upper(%(asked_days)s::datemultirange))
    or (m.told_on is null and (m.created_at at time zone %(zone)s::text)::date <@ %(asked_days)s::datemultirange
        and m.created_at >= lower(%(asked_days)s::datemultirange) - interval '1 day'
        and m.created_at < upper(%(asked_days)s::datemultirange) + interval '1 day')
)

-- fragment: covered
-- What a memory has of the question, by its lexical score: the share of what its words weigh, and what they are worth
-- where 1 is a word that one memory alone has.
case when found.lexical is not null then least(
    1, found.lexical * (1 + found.words / %(half_length)s::float8) / nullif((select weight from asked_weight), 0)
) end as covered,
found.lexical * (1 + found.words / %(half_length)s::float8) / ln(1 + (%(size)s - 0.5) / 1.5) as worth

-- fragment: asks
-- Whether a memory ends with a question mark. Contents that are kept compressed are not looked into, and those without
-- a question mark not to their end, which takes a microsecond.
coalesce(pg_column_size(m.content) < 2000 and strpos(m.content, '?') > 0 and right(rtrim(m.content), 1) = '?', false)

-- fragment: tells_self
-- Whether a memory begins with words of who speaks of himself. Five searches of a string take a tenth of a pattern.
(
    select strpos(head, ' I ') > 0 or strpos(head, ' I''') > 0 or strpos(head, ' my ') > 0 or strpos(head, ' My ') > 0
        or strpos(head, ' me ') > 0
    from (values (' ' || left(m.content, 300))) as begins (head)
)

-- fragment: candidate
-- What ranking wants to know of a candidate. What a question does not need is left out of the plan, which is made anew
-- for each.
m.node_id as id, m.partition = 'trusted' as trusted, m.thread, m.position, m.speaker,
coalesce(m.sector, 'semantic') as sector, m.confidence, m.active_hours,
case when %(zone)s::text is not null then {day} end as day, m.told_on is not null as tells_of_day,
{asks} as asks, {tells_self} as tells_self, {words} as words

-- fragment: day
-- The day of a memory m: that which it tells of, else that on which it was stored.
coalesce(m.told_on, (m.created_at at time zone %(zone)s::text)::date)

-- fragment: words
-- The different words of a memory m, by which a match counts less; more than so many make no difference, so that a word
-- which stands nowhere else counts in a long note too.
least(length(m.lexemes), %(most_words)s)

-- fragment: common_words
-- What the common words of the question, which nothing was looked up for, count for a memory.
(select sum(c.weight) from common c where m.lexemes @@ c.query) / (1 + {words} / %(half_length)s::float8)

-- fragment: with_tags
-- Whether a memory m has the tags that are asked for, if any are: those that have are looked up in the index of tags.
(%(tags)s::text[] is null or m.node_id = any(array(
    select m.node_id from memories_in_namespace m where {chosen} and {tagged}
)))

-- name: chosen_size
-- How many memories a search may find, counted up to a limit.
select count(*) as memories
from (
    select 1 as found from memories_in_namespace m
    where {chosen} and (%(tags)s::text[] is null or {tagged})
    limit %(limit)s
) counted

-- fragment: distance
-- Cosine distance, exact for any memory whose vector the same model made.
m.embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions})

-- fragment: plain_distance
-- The same from the question as it was asked, names and all.
m.embedding::halfvec({dimensions}) <=> %(plain)s::halfvec({dimensions})

-- fragment: by_pieces
-- The distance of the nearest piece of a long memory m, null where it has none. Of many pieces the nearest is near by
-- chance: .1 ln(pieces) is what that is worth.
case when m.pieces is not null then (
    select min(piece::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions})) + 0.1 * ln(count(*))
    from unnest(m.pieces) as piece
    having count(*) > 0
) end

-- fragment: as_json
-- The candidates as one JSON text, an array for each field of Candidates: 400 rows of ten columns cost the driver ten
-- times as much.
select case when count(*) > 0 then json_build_array({columns})::text else '[]' end as candidates

-- fragment: columns
-- The fields of Candidates in their order. The distance of zeros, which a text has that the model cannot read, is no
-- number: it has no similarity.
json_agg(id), json_agg(trusted), json_agg(lexical), json_agg(covered), json_agg(worth),
json_agg(case when plain <> 'NaN' then least(1, greatest(-1, 1 - plain)) end),
json_agg(case when distance <> 'NaN' then least(1, greatest(-1, 1 - distance)) end),
json_agg(thread), json_agg(position), json_agg(speaker), case when %(zone)s::text is not null then json_agg(day) end,
json_agg(tells_of_day),
json_agg(asks), json_agg(tells_self), json_agg(words), json_agg(sector), json_agg(confidence),
json_agg(active_hours)

-- fragment: by_text_or_day
-- The best by text, and those of the days asked for.
(
    select id, t.lexical
    from (
        select id from (select id from by_text order by lexical desc, id desc limit %(candidates)s) best
        union select id from by_day
    ) wanted
    left join by_text t using (id)
)

-- name: search_text
-- Candidates by full text alone.
with {full_text}
{as_json}
from (select found.*, {covered} from (
    select {candidate}, t.lexical, null::float8 as distance, null::float8 as plain
    from {by_text_or_day} t
    join memories m on m.node_id = t.id and m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[])
) found) found

-- name: search_exact
-- Candidates by full text and by an exact scan of the vectors.
with {full_text}, {scanned}, {near}, {by_vector}
{both_arms}

-- name: search_exact_repeated
-- The same where many vectors are equal: of each only the newest ten are compared, which leave room for others.
with {full_text}, {scanned_few}, {near}, {by_vector}
{both_arms}

-- name: search_by_index
-- Candidates by full text and by the vector index.
with {full_text}, {indexed}, {near}, {by_vector}
{both_arms}

-- name: search_by_index_repeated
-- The same where some vectors are outside the index, since it holds enough equal ones.
with recursive {repeated_key}, {full_text}, {indexed}, {near_and_repeated}, {by_vector}
{both_arms}

-- fragment: scanned
-- The nearest of all vectors; adding 0 keeps the planner off the vector index.
known as materialized (
    select m.node_id, m.partition, ({distance}) + 0 as distance
    from memories m
    where {chosen} and {with_tags} and {comparable}
    order by distance
    limit %(candidates)s
), is_whole (is_whole) as (select true)

-- fragment: scanned_few
-- The nearest of all vectors, of equal ones the newest ten.
known as materialized (
    select each.node_id, each.partition, each.distance
    from (
        select m.node_id, m.partition, ({distance}) + 0 as distance,
            row_number() over (partition by m.vector_key order by m.node_id desc) as place
        from memories m
        where {chosen} and {with_tags} and {comparable}
    ) each
    where each.place <= 10
    order by each.distance
    limit %(candidates)s
), is_whole (is_whole) as (select true)

-- fragment: indexed
-- What the vector index gives, which goes on until it has enough, and the nearest of what it does not know yet. `is_whole`:
-- whether the index gave enough, and enough different ones; and nothing is outside that the query leaves out.
by_index as materialized (
    select m.node_id, m.partition, {distance} as distance, m.vector_key
    from memories m
    where {chosen} and {comparable} and {in_index}
    order by {distance}
    limit %(candidates)s
), known as materialized (
    select node_id, partition, distance from by_index
    union (
        select m.node_id, m.partition, ({distance}) + 0 as distance
        from memories m
        where {chosen} and {comparable} and {outside_index}
        order by distance
        limit %(candidates)s
    )
), is_whole (is_whole) as (
    select (select count(*) >= %(candidates)s and count(distinct vector_key) >= %(candidates)s / 4 from by_index)
        and (%(knows_repeated)s or not exists (
            select from memories m
            where m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and m.repeated
        ))
)

-- fragment: near
-- The nearest memories.
near as materialized (
    select * from known order by distance limit %(candidates)s
)

-- fragment: near_and_repeated
-- The nearest memories; of equal vectors outside the index the newest two.
near as materialized (
    select *
    from (
        select * from known
        union all
        select m.node_id, m.partition, ({distance}) + 0
        from repeated_key k
        cross join lateral (
            select m.* from memories m
            where {chosen} and {comparable} and {of_repeated}
            order by m.node_id desc
            limit 2
        ) m
    ) near
    order by distance
    limit %(candidates)s
)

-- fragment: comparable
-- Whether a memory m has a vector that this model made.
m.state = 'active' and m.model_id = %(model_id)s

-- fragment: by_vector
-- The memories near the question, as ranking wants to know them.
by_vector as materialized (
    select {candidate}, {common_words} as besides, n.distance, {plain_distance} as plain, {by_pieces} as by_pieces
    from near n
    join memories m on m.node_id = n.node_id and m.partition = n.partition
    where n.distance <> 'NaN' and m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[])
)

-- fragment: both_arms
-- The candidates of both arms, each with both scores; no distance for what has no such vector. What is found by the
-- vector of the whole is measured by what of it is nearest.
{as_json}, (select is_whole from is_whole) as is_whole
from (select found.*, {covered} from (
    select v.id, v.trusted, v.thread, v.position, v.speaker, v.sector, v.confidence, v.active_hours, v.day, v.tells_of_day,
        v.asks, v.tells_self, v.words, coalesce(t.lexical, v.besides) as lexical,
        least(v.distance, v.by_pieces) as distance, v.plain
    from by_vector v
    left join by_text t on t.id = v.id
    union all
    select {candidate}, t.lexical,
        case when m.state = 'active' and m.model_id = %(model_id)s then least({distance}, {by_pieces}) end,
        case when m.state = 'active' and m.model_id = %(model_id)s then {plain_distance} end
    from {by_text_or_day} t
    join memories m on m.node_id = t.id and m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[])
    where not exists (select from by_vector v where v.id = t.id)
) found) found
