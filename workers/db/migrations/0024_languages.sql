-- Full text by the language of the namespace, where all was taken for English; scripts that put no spaces between words
-- are found by pairs of characters, whatever the language.

alter table namespaces add column language text not null default 'english';
grant update (language) on namespaces to engramq_worker;

-- Namespaces with memories whose words are those of another language than the namespace's. The words of a question are
-- looked for in all of these languages until upkeep has made all words anew, so a search misses nothing meanwhile.
create table lexeme_rebuilds (
    tenant           integer primary key,
    former_languages text[] not null,
    changed_at       timestamptz not null default now(),
    passes           integer not null default 0,  -- through all memories, since then
    began_at         timestamptz,                 -- the pass that is under way; null between two
    after_id         uuid not null default '00000000-0000-0000-0000-000000000000',  -- how far that pass is
    done             bigint not null default 0    -- memories that were looked at, in all passes
) with (fillfactor = 50);
alter table lexeme_rebuilds enable row level security;
create policy own_tenant on lexeme_rebuilds to engramq_worker
    using (tenant = nullif(current_setting('app.tenant', true), '')::integer)
    with check (tenant = nullif(current_setting('app.tenant', true), '')::integer);
grant select, insert, update, delete on lexeme_rebuilds to engramq_worker;

-- What is there has English words, and no pairs of characters. Only memories whose words change are written; one pass is
-- enough, when whoever knows no pairs yet has ended.
insert into lexeme_rebuilds (tenant, former_languages, passes) select tenant, array['words alone'], 1 from namespaces;

-- The languages that a namespace may have: those that this PostgreSQL can stem, `simple` for none, and some that have no
-- words to stem. What is written in Latin letters among those is taken for English.
create function languages() returns setof text
language sql stable parallel safe
begin atomic
    select c.cfgname::text from pg_ts_config c where c.cfgnamespace = 'pg_catalog'::regnamespace
    union
    select unnest(array['chinese', 'japanese', 'korean', 'thai']);
end;

-- How the words of a language are stemmed.
create function text_configuration(language text) returns regconfig
language sql stable parallel safe
return case
    when language in ('english', 'chinese', 'japanese', 'korean', 'thai', 'words alone') then 'pg_catalog.english'::regconfig
    else ('pg_catalog.' || language)::regconfig
end;

-- The words of a text as full text knows them: stemmed, without stop words. Of Chinese, Japanese, Korean, Thai, Lao, Khmer
-- and Burmese each pair of neighbours, since PostgreSQL takes what stands between two spaces for one word. A character
-- that stands alone is a word. What was written before there were pairs has its words alone.
create function words_in(language text, content text) returns text[]
language plpgsql stable parallel safe as $$
declare
    scripts constant text := '\u0E01-\u0E4E\u0E80-\u0ECF\u1000-\u109F\u1780-\u17D3\u3005-\u3007\u3041-\u309F\u30A1-\u30FA'
        '\u30FC-\u30FF\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7A3\uF900-\uFAFF\uFF66-\uFFDC\U00020000-\U0003FFFF';
begin
    if octet_length(content) = length(content) or language = 'words alone' or content !~ ('[' || scripts || ']') then
        return tsvector_to_array(to_tsvector(text_configuration(language), content));
    end if;
    content := normalize(content, nfkc);  -- halfwidth Katakana, fullwidth Latin
    return array(
        select unnest(tsvector_to_array(to_tsvector(
            text_configuration(language), regexp_replace(content, '[' || scripts || ']+', ' ', 'g')
        )))
        union
        select letter || case when after <> ' ' then after else '' end
        from (
            select letter, lag(letter, 1, ' ') over beside as before, lead(letter, 1, ' ') over beside as after
            from unnest(string_to_array(regexp_replace(content, '[^' || scripts || ']+', ' ', 'g'), null))
                with ordinality as letters (letter, place)
            window beside as (order by place)
        ) one
        where letter <> ' ' and (after <> ' ' or before = ' ')
    );
end
$$;

-- The language of a tenant that was entered.
create function language_of(wanted integer) returns text
language sql stable parallel safe
return coalesce((select n.language from namespaces n where n.tenant = wanted), 'english');

-- The words that full text finds a memory by: its content, who said it, and the date (English month name, day, year).
create or replace function memory_lexemes(tenant integer, content text, speaker text, occurred_at timestamptz)
returns tsvector
language sql stable parallel safe set plan_cache_mode = 'force_generic_plan'
return (
    select coalesce(array_to_tsvector(array_agg(lexeme_prefix(tenant) || word)), ''::tsvector)
    from unnest(words_in(language_of(tenant), content || ' ' || coalesce(speaker, '') || ' '
        || coalesce(to_char(occurred_at at time zone 'UTC', 'FMDD FMMonth YYYY'), ''))) as word
    where octet_length(word) <= 1000  -- a lexeme may have 2,046 bytes, no word of a language has
);

-- The words that a question asks a tenant's memories for, in each language that some of them may have.
create function question_words(asked integer, question text) returns text[]
language sql stable parallel safe set plan_cache_mode = 'force_generic_plan'
return array(
    select distinct word
    from (
        select language_of(asked) as language
        union
        select unnest(r.former_languages) from lexeme_rebuilds r where r.tenant = asked
    ) spoken
    cross join lateral unnest(words_in(spoken.language, question)) as word
    where octet_length(word) <= 1000
);

-- A namespace without a number gets one, and a language; see 0007_tenants.sql.
drop function make_tenant(text);
create function make_tenant(named text, spoken text default 'english') returns integer
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    found_tenant integer;
begin
    select tenant into found_tenant from namespaces where namespace = named;
    if found_tenant is null then
        insert into namespaces (namespace, language) values (named, spoken) on conflict (namespace) do nothing
        returning tenant into found_tenant;
    end if;
    if found_tenant is null then
        select tenant into strict found_tenant from namespaces where namespace = named;
    end if;
    return found_tenant;
end
$$;
revoke all on function make_tenant(text, text) from public;
grant execute on function make_tenant(text, text) to engramq_worker;

-- Namespaces whose words are to be made anew, the ones that have waited longest first. Concerns every tenant, so it runs as
-- the owner.
create function rebuilding_namespaces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from lexeme_rebuilds r
    join namespaces n on n.tenant = r.tenant
    order by r.changed_at, n.namespace;
end;
revoke all on function rebuilding_namespaces() from public;
grant execute on function rebuilding_namespaces() to engramq_worker;
