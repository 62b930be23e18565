-- Full text by functions that read no table, so that a node of a cluster can call them on its own rows: who calls them
-- names the language. PostgreSQL calls to_tsvector immutable though a configuration can be altered, and so are these: an
-- UPDATE on distributed tables calls no other function with a column. Those of 0024_languages.sql stay, for workers of
-- before.

create function lexemes_of(tenant integer, language text, content text, speaker text, occurred_at timestamptz)
returns tsvector
language sql immutable parallel safe set plan_cache_mode = 'force_generic_plan'
return (
    select coalesce(array_to_tsvector(array_agg(lexeme_prefix(tenant) || word)), ''::tsvector)
    from unnest(words_in(language, content || ' ' || coalesce(speaker, '') || ' '
        || coalesce(to_char(occurred_at at time zone 'UTC', 'FMDD FMMonth YYYY'), ''))) as word
    where octet_length(word) <= 1000  -- a lexeme may have 2,046 bytes, no word of a language has
);

create or replace function memory_lexemes(tenant integer, content text, speaker text, occurred_at timestamptz)
returns tsvector
language sql stable parallel safe set plan_cache_mode = 'force_generic_plan'
return lexemes_of(tenant, language_of(tenant), content, speaker, occurred_at);

create function words_asked(languages text[], question text) returns text[]
language sql immutable parallel safe set plan_cache_mode = 'force_generic_plan'
return array(
    select distinct word
    from unnest(languages) as language
    cross join lateral unnest(words_in(language, question)) as word
    where octet_length(word) <= 1000
);

create or replace function question_words(asked integer, question text) returns text[]
language sql stable parallel safe set plan_cache_mode = 'force_generic_plan'
return words_asked(array(
    select language_of(asked) union select unnest(r.former_languages) from lexeme_rebuilds r where r.tenant = asked
), question);

-- So many texts, each once: what an ON CONFLICT of a distributed table cannot ask by a subquery.
create function first_distinct(texts text[], most integer) returns text[]
language sql immutable parallel safe
return array(select distinct one from unnest(texts) as one limit most);
