-- fragment: own_language
-- The language of the namespace.
coalesce((select n.language from namespaces n where n.tenant = %(tenant)s), 'english')

-- fragment: all_languages
-- The languages that words of the namespace's memories may be of.
array(
    select {own_language} union
    select unnest(r.former_languages) from lexeme_rebuilds r where r.tenant = %(tenant)s
)

-- name: language_known
-- Whether a namespace may have this language here, and which ones it may have.
select %(language)s = any(l.known) as is_known, l.known from (select array(select languages() order by 1) as known) l

-- name: full_text_language
-- The language of a namespace; and how far its words are made anew: null when they all are.
select n.language, r.done, case when r.tenant is not null then (
        select count(*) from memories m where m.tenant = %(tenant)s
    ) end as total
from namespaces n
left join lexeme_rebuilds r on r.tenant = %(tenant)s
where n.tenant = %(tenant)s

-- name: change_language
-- Give a namespace another language, and have its words made anew; what it was before. No row when it has it already.
with former as (
    select n.language from namespaces n where n.tenant = %(tenant)s and n.language <> %(language)s for update
), changed as (
    update namespaces n set language = %(language)s from former where n.tenant = %(tenant)s
    returning former.language
), noted as (
    insert into lexeme_rebuilds (tenant, former_languages)
    select %(tenant)s, array[language] from former
    on conflict (tenant) do update set
        former_languages = array_remove(lexeme_rebuilds.former_languages, excluded.former_languages[1])
            || excluded.former_languages,
        changed_at = excluded.changed_at, passes = 0, began_at = null, after_id = excluded.after_id, done = 0
)
select language from changed

-- name: rebuilding_namespaces
-- Namespaces whose words are to be made anew.
select namespace from rebuilding_namespaces() as namespace

-- name: take_rebuild
-- Where the words of a namespace are to be made anew from on, for this transaction alone. No row when that is over, when
-- somebody is at it, or when another pass would come too soon. A pass that began a minute after the change is the last:
-- no transaction lasts so long, so none is left that stores the words of before.
update lexeme_rebuilds r set began_at = due.began_at
from (
    select l.tenant, coalesce(l.began_at, now()) as began_at,
        coalesce(l.began_at, now()) >= l.changed_at + make_interval(secs => %(settled_s)s) as is_last
    from lexeme_rebuilds l
    where l.tenant = %(tenant)s
        and (l.passes = 0 or l.began_at is not null or l.changed_at <= now() - make_interval(secs => %(settled_s)s))
    for update skip locked
) due
where r.tenant = %(tenant)s and r.tenant = due.tenant
returning r.after_id, due.is_last

-- name: rebuild_lexemes
-- Give the next so many memories the words that they should have; where the next ones begin: null at the end. Those whose
-- words change are read again once they are locked. It counts as no update.
with next as materialized (
    select m.node_id, m.partition,
        m.lexemes <> lexemes_of(%(tenant)s, {own_language}, m.content, m.speaker, m.told_on) as differs
    from memories m
    where m.tenant = %(tenant)s and m.node_id > %(after_id)s
    order by m.node_id
    limit %(limit)s
), locked as materialized (
    select m.node_id, m.partition, lexemes_of(%(tenant)s, {own_language}, m.content, m.speaker, m.told_on) as lexemes
    from memories m
    where m.tenant = %(tenant)s and m.node_id = any(array(select n.node_id from next n where n.differs))
    order by m.node_id
    for no key update of m
), changed as (
    update memories m set lexemes = locked.lexemes
    from locked
    where m.tenant = %(tenant)s and m.node_id = locked.node_id and m.partition = locked.partition
    returning 1
)
select
    (select count(*) from next) as seen, (select count(*) from changed) as changed,
    (select n.node_id from next n order by n.node_id desc limit 1) as last

-- name: note_rebuilt
-- Say how far a pass is.
update lexeme_rebuilds set after_id = %(after_id)s, done = done + %(seen)s where tenant = %(tenant)s

-- name: end_pass
-- Say that a pass is over which was not the last.
update lexeme_rebuilds set passes = passes + 1, began_at = null, after_id = '00000000-0000-0000-0000-000000000000'
where tenant = %(tenant)s

-- name: end_rebuild
-- Say that all words are those of the namespace's language, by the rule of today.
delete from lexeme_rebuilds where tenant = %(tenant)s
