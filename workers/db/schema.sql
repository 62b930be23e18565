-- The whole schema of engramq, as `engramq migrate` gives it to an empty database. The database's owner runs it; the
-- extension takes a superuser or a trusted setup.
--
-- Every table of a tenant's rows begins its key with the tenant's number, so rows of a tenant can lie together on one node
-- of a cluster (deploy/citus.sql). No foreign key leaves a tenant. Functions that a node of a cluster runs on its own rows
-- read no table.
--
-- Contents: text functions, tenants, memories, links and graph, searching, commands, webhooks, upkeep, row-level security,
-- functions that run as the owner, rights.

create extension if not exists vector;


-- Text functions
-- ==============
-- None reads a table. They are called immutable so that UPDATEs on distributed tables may use them with columns, though a
-- text search configuration can be altered; PostgreSQL calls to_tsvector immutable for the same reason.

-- What stands before every lexeme of a tenant, so that one text index finds and counts a tenant's rows alone, however many
-- tenants share it. A number in hexadecimal ends at its colon, so no two tenants can be mixed up.
create function lexeme_prefix(tenant integer) returns text
language sql immutable parallel safe
return to_hex(tenant) || ':';

-- The query that finds the memories of a tenant with one lexeme, whatever characters it has.
create function lexeme_query(tenant integer, lexeme text) returns tsquery
language sql immutable parallel safe
return ('''' || replace(replace(lexeme_prefix(tenant) || lexeme, '\', '\\'), '''', '''''') || '''')::tsquery;

-- Tags with their tenant before them, so that one index finds a tenant's rows alone. Case and outer blanks tell no two
-- tags apart.
create function tag_keys(tenant integer, tags text[]) returns text[]
language sql immutable strict parallel safe
return (select array_agg(lexeme_prefix(tenant) || lower(btrim(tag))) from unnest(tags) as tag);

-- The memories that evidence cites, with their tenant before them, as tags have it.
create function ground_keys(tenant integer, evidence jsonb) returns text[]
language sql immutable strict parallel safe
return (
    select array_agg(lexeme_prefix(tenant) || (cited ->> 'memory_id'))
    from jsonb_array_elements(evidence) as cited
    where cited ? 'memory_id'
);

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
    when language in ('english', 'chinese', 'japanese', 'korean', 'thai') then 'pg_catalog.english'::regconfig
    else ('pg_catalog.' || language)::regconfig
end;

-- A text that PostgreSQL's parser reads once: at each character of a run without blanks, and at each comment without an
-- end, it would read on and come back, which takes seconds for 32,768 characters. Runs are cut, and such comments are none.
create function parseable(content text) returns text
language plpgsql immutable parallel safe as $$
declare
    run constant integer := 255;
    last_end integer;
begin
    if length(content) > run then
        content := regexp_replace(content, '(\S{' || run || '})', '\1 ', 'g');
    end if;
    if strpos(content, '<!--') > 0 then
        last_end := coalesce(length(content) + 1 - nullif(strpos(reverse(content), '>--'), 0), 0);
        content := left(content, last_end) || replace(substr(content, last_end + 1), '<!--', '<! --');
    end if;
    return content;
end
$$;

-- A text with a mark between the parts of its compound words, where a stranger would look for either part:
-- src|billing|charge.py, ada|@|mail, ENG|-123, python|3.11, get|User|Name. Hyphens between letters stay: the parser knows
-- those words. A sign before a number is a mark, too, and so is what begins a path (/|healthz), but not a closing tag's.
create function marked_compounds(content text) returns text
language plpgsql immutable parallel safe as $$
declare
    letter constant text := '[^\s\x01!-/:-@[-`{-~]';
begin
    if content ~ '[a-z][A-Z][a-z]' then
        content := concat_ws(' ', content, (
            select string_agg(regexp_replace(camel[1], '([A-Z])', E'\x01\\1', 'g'), ' ')
            from regexp_matches(content, '\m[a-z]+(?:[A-Z][a-z0-9]+)+\M', 'g') as camel
        ));
    end if;
    -- Without groups, which take five times as long.
    content := regexp_replace(
        content, '(?<=' || letter || ')[._/\\:@=&+#~?%](?=' || letter || ')|(?<=\d)-(?=' || letter || ')|[-+](?=\d)'
            || '|(?<![:/<])/(?=\.?' || letter || ')',
        E'\x01', 'g'
    );
    if content ~ '\m[a-zA-Z]+\d+\M' then
        content := regexp_replace(content, '\m([a-zA-Z]+)(?=\d+\M)', E'\\1\x01', 'g');
    end if;
    return content;
end
$$;

-- A text as who has no such keys writes it: é is e, ł is l, ß is ss. The short i of Cyrillic is a letter of its own.
-- Capitals go as their small letters do: Ærø is ærø.
create function without_accents(content text) returns text
language sql immutable parallel safe
return normalize(
    translate(
        regexp_replace(
            normalize(
                translate(
                    replace(replace(replace(replace(replace(replace(
                        content, 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe'), 'ẞ', 'SS'), 'Æ', 'Ae'), 'Œ', 'Oe'
                    ),
                    'йЙ', E'\x02\x03'
                ),
                nfd
            ),
            '[\u0300-\u036F]', '', 'g'
        ),
        E'\x02\x03łŁøØđĐðÐħĦŧŦı', 'йЙlLoOdDdDhHtTi'
    ),
    nfc
);

-- The words of a text between spaces: stemmed, without stop words and accents; what a hyphen joins is one word (e-mail is
-- email) beside its parts. Then each pair of neighbours in another compound word (eng-123, billing-charge: whatever stands
-- between them), words with a sign of their own (c#, .net, @ada), and the stop words that are somebody's or something's
-- name: those with a capital within a sentence, and abbreviations (Will, IT).
create function spaced_words(language text, content text) returns text[]
language plpgsql stable parallel safe as $$
declare
    letter constant text := '[^\s\x01!-/:-@[-`{-~]';
    accented constant text := '[\u00C0-\u024F\u0300-\u036F\u0370-\u04FF\u1E00-\u1FFF]';
    configuration constant regconfig := text_configuration(language);
    is_accented constant boolean := octet_length(content) <> length(content) and content ~ accented;
    stems_accents constant boolean := configuration not in ('pg_catalog.english', 'pg_catalog.simple');
    hyphen constant text := '(?<=[[:alpha:]])-(?=[[:alpha:]])';
    marked text;
    plain text;
    words text[];
    parts text[];
begin
    -- Other languages tell stop words and stems by accents, so theirs go at the end.
    if is_accented and not stems_accents then
        content := without_accents(content);
    end if;
    marked := marked_compounds(parseable(content));
    plain := translate(marked, E'\x01\n\r\t', '    ');
    if plain ~ hyphen then
        plain := concat_ws(' ', regexp_replace(plain, hyphen, ' ', 'g'), (
            select string_agg(replace(compound[1], '-', ''), ' ')
            from regexp_matches(plain, '([[:alpha:]]+(?:-[[:alpha:]]+)+)', 'g') as compound
        ));
    end if;
    words := tsvector_to_array(to_tsvector(configuration, plain));
    if is_accented and stems_accents then
        -- Who leaves accents out asks for the stem of what is left: Cafés is caf then, and cafes with its accent.
        words := words || tsvector_to_array(to_tsvector(configuration, without_accents((
            select string_agg(word, ' ')
            from (
                select distinct word from string_to_table(plain, ' ') as word
                where octet_length(word) <> length(word) and word ~ '[^\x01-\x7F\u0400\u0402-\u0450\u0452-\u04FF]'
            ) accented
            where to_tsvector(configuration, word) <> ''  -- no stop word
        ))));
    end if;
    if strpos(marked, E'\x01') > 0 then
        parts := string_to_array((
            select string_agg(compound[1], E'\x01\x01')
            from regexp_matches(marked, letter || '+(?:\x01' || letter || '+)+', 'g') as compound
        ), E'\x01');
        words := words || array(
            select lower(part || '-' || after) from unnest(parts, parts[2:]) as pair (part, after)
            where part <> '' and after <> ''
        );
    end if;
    if content ~ '\S[#+]|[.@#]\S' then
        words := words || array(
            select lower(signed[1])
            from regexp_matches(content, '(?<![[:alnum:].@#])[.@#]' || letter || '+|' || letter || '+[#+]+(?![-+#\w])', 'g')
                as signed
        );
    end if;
    if content ~ '\S\s[A-Z]|[A-Z]{2}' then
        words := words || array(
            select lower(name)
            from regexp_matches(content, '[^\s.!?](?:\s[A-Z][A-Za-z]*)+|\m[A-Z]{2,}\M', 'g') as names,
                string_to_table(names[1], ' ') as name
            where length(name) between 2 and 10 and to_tsvector(configuration, name) = ''
        );
    end if;
    if is_accented and stems_accents then
        words := string_to_array(without_accents(array_to_string(words, ' ')), ' ');  -- once: a call a word took longer
    end if;
    return words;
end
$$;

-- The words of a text as full text knows them. Of Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese each pair of
-- neighbours, since PostgreSQL takes what stands between two spaces for one word. A character that stands alone is a word.
create function words_in(language text, content text) returns text[]
language plpgsql stable parallel safe as $$
declare
    scripts constant text := '\u0E01-\u0E4E\u0E80-\u0ECF\u1000-\u109F\u1780-\u17D3\u3005-\u3007\u3041-\u309F\u30A1-\u30FA'
        '\u30FC-\u30FF\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7A3\uF900-\uFAFF\uFF66-\uFFDC\U00020000-\U0003FFFF';
begin
    if octet_length(content) = length(content) or content !~ ('[' || scripts || ']') then
        return spaced_words(language, content);
    end if;
    content := normalize(content, nfkc);  -- halfwidth Katakana, fullwidth Latin
    return spaced_words(language, regexp_replace(content, '[' || scripts || ']+', ' ', 'g')) || array(
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

-- A number as digits alone: "1.2" and "million" make 1200000, "12" and "k" 12000. Null where it has none, or too many.
-- In plpgsql, which keeps its plan: SQL would be planned once in each statement.
create function plain_number(number text, magnitude text) returns text
language plpgsql immutable parallel safe as $$
declare
    value constant numeric := replace(number, ',', '.')::numeric * case
        when lower(magnitude) in ('k', 'thousand', 'tausend', 'tsd') then 1000
        when lower(magnitude) in ('m', 'mio', 'million', 'millions', 'millionen') then 1000000
        else 1000000000
    end;
begin
    return case when value = trunc(value) and value < 1e15 then trunc(value)::text end;
end
$$;

-- Digits that people set in groups (numbers of telephones, cards, books) as one number, as it is dialled within its
-- country: without zeros before it, and without the country's code after a +. Null: a date, an address of a host, or no
-- number of 7 to 19 digits.
create function joined_digits(written text) returns text
language plpgsql immutable parallel safe as $$
declare
    digits text := translate(replace(written, '(0)', ''), '+() ./-', '');
    two text;
begin
    if length(digits) not between 7 and 19
        or written ~ ('^(?:[0-9]{1,2}[./-][0-9]{1,2}[./-](?:[0-9]{2}){1,2}(?![0-9])|[0-9]{4}[./-][0-9]{1,2}(?![0-9])'
            || '|[0-9]+(?:\.[0-9]+){3})')
    then
        return null;
    elsif left(ltrim(written, '('), 1) = '+' or left(ltrim(written, '('), 2) = '00' then
        digits := ltrim(digits, '0');
        two := left(digits, 2);
        return substr(digits, case
            when left(two, 1) in ('1', '7') then 2
            when two in ('21', '22', '23', '24', '25', '26', '28', '29', '35', '37', '38', '42', '50', '59', '67', '68', '69')
                or two in ('80', '83', '85', '87', '88', '89', '96', '97', '99') then 4
            else 3
        end);
    end if;
    return case when left(written, 2) in ('1-', '1.', '1 ') then substr(digits, 2) else ltrim(digits, '0') end;
end
$$;

-- The words of a text as others write them, for the index alone, since who asks writes in one way only. EpiPen is Epi_Pen,
-- HTTPServerFactory HTTP_Server_Factory and ServerFactory, O'Brien OBrien, dark_mode darkmode. Of German ü is ue, and ue in
-- a name is ü, whose dots are no matter; Manuel, Noel and Michael have none. Of English children are child and bought is
-- buy, which no stemmer knows; pasts that are words of their own (won, lent, bit, shot, drew) are left out.
create function other_words(content text) returns text
language plpgsql immutable parallel safe as $$
declare
    most constant integer := 32;  -- of each kind, so that no text has many words that nobody wrote
    longest constant integer := 64;
    capitals constant text := '[a-z][A-Z]|[A-Z]{2}[a-z]{2}';
    irregular constant text[] := array[
        'child children', 'mouse mice', 'wolf wolves', 'knife knives', 'shelf shelves', 'half halves', 'wife wives',
        'thief thieves', 'ox oxen', 'loaf loaves', 'calf calves', 'scarf scarves', 'man men', 'woman women',
        'person people', 'foot feet', 'tooth teeth', 'goose geese', 'index indices', 'matrix matrices', 'vertex vertices', 'appendix appendices',
        'criterion criteria', 'analysis analyses', 'crisis crises', 'buy bought', 'sell sold', 'teach taught', 'catch caught',
        'bring brought', 'lose lost', 'build built', 'send sent', 'spend spent', 'pay paid', 'meet met',
        'write wrote written', 'choose chose chosen', 'break broke broken', 'drive drove driven', 'fly flew flown',
        'grow grew grown', 'throw threw thrown', 'wear wore worn', 'freeze froze frozen', 'steal stolen',
        'hide hid hidden', 'eat ate eaten', 'ride rode ridden', 'sing sang sung', 'swim swam swum', 'sleep slept',
        'drink drank drunk', 'fight fought', 'seek sought', 'forget forgot forgotten', 'speak spoken',
        'draw drawn', 'dig dug', 'sink sank sunk', 'bend bent', 'bite bitten', 'sew sewed sewn', 'swear swore sworn'
    ];
    small constant text := lower(content);
    forms text[] := '{}';
begin
    if content ~ capitals then
        forms := forms || array(
            select distinct concat_ws(' ', parted, (
                select string_agg(part || after, ' ') from unnest(parts, parts[2:]) as pair (part, after)
                where after <> '' and cardinality(parts) > 2
            ))
            from regexp_matches(content, '\m([A-Z][A-Za-z0-9]+)\M', 'g') as camel,
                regexp_replace(
                    regexp_replace(camel[1], '([a-z0-9])([A-Z])', '\1_\2', 'g'), '([A-Z])([A-Z][a-z])', '\1_\2', 'g'
                ) as parted,
                string_to_array(parted, '_') as parts
            where length(camel[1]) <= longest and camel[1] ~ capitals limit most
        );
    end if;
    if content ~ '[A-Za-z0-9][_''\u2019-][A-Za-z0-9]' then
        forms := forms || array(
            select distinct translate(joined[1], E'_-''\u2019', '')
            from regexp_matches(
                content, '\m([A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)+|[A-Za-z][''\u2019][A-Z][a-z]+|[DLOdlo][''\u2019][a-z]{3,})\M', 'g'
            ) as joined
            where length(joined[1]) <= longest and lower(joined[1]) <> upper(joined[1])
                and translate(joined[1], E'0123456789_''\u2019', '') <> joined[1] limit most
        );
    end if;
    if small ~ ('\m(?:' || replace(array_to_string(irregular, '|'), ' ', '|') || ')\M') then
        forms := forms || array(
            select distinct other
            from regexp_matches(content, '\m([a-z]{2,10})\M', 'gi') as word
            join unnest(irregular) as several on ' ' || several || ' ' like '% ' || lower(word[1]) || ' %'
            cross join string_to_table(several, ' ') as other
            where other <> lower(word[1]) limit most
        );
    end if;
    if translate(content, 'äöüÄÖÜ', '') <> content then
        forms := forms || array(
            select distinct replace(replace(replace(translate(word[1], 'ÄÖÜ', 'äöü'), 'ä', 'ae'), 'ö', 'oe'), 'ü', 'ue')
            from regexp_matches(content, '\m(\w*[äöüÄÖÜ]\w*)\M', 'g') as word
            where length(word[1]) <= longest limit most
        );
    end if;
    if strpos(small, 'ae') > 0 or strpos(small, 'oe') > 0 or strpos(small, 'ue') > 0 then
        forms := forms || array(
            select distinct regexp_replace(word[1], '([AOUaou])e', '\1', 'g')
            from regexp_matches(
                content, '\m((?:[A-Z][a-z]*[aou]|[AOU])e(?!l(?:s|a|le?)?\M|[ysmtn]\M|st|sday|tooth)[a-z]+)\M', 'g'
            ) as word
            where length(word[1]) <= longest limit most
        );
    end if;
    return array_to_string(forms, ' ');
end
$$;

-- The numbers of a text as others write them, for the index alone: 12k is 12000, 20,971,520 is 20971520, 500 ml is 500ml;
-- what is dialled or copied in groups is one number, and so is one without the zeros before it. A hash is also its
-- beginning, and a sign of money or a share beside a number its word. The patterns are those of `workers/one_form.py`.
-- PostgreSQL keeps 32 patterns compiled and one compiles for up to a millisecond, so what no pattern needs has none.
create function other_numbers(content text) returns text
language plpgsql immutable parallel safe as $$
declare
    most constant integer := 32;  -- of each kind
    magnitude constant text := '(?:[kKM]|\s?(?:thousand|tausend|Tsd|Mio|[Mm]illion(?:s|en)?|bn|[Bb]illion))';
    measure constant text := '(?:°[CF]|[kKMGT]?i?B|[mcµ]?l|[kmµ]?g|[kcm]?m|[mnµ]?s|[kMG]?Hz|k?Wh?|[VAC]|min|px|in|ft|lbs?)';
    blank constant text := '[ \u00A0\u202F]';
    grouped constant text := '(?<![\w.,+/-])(?:(?:[0-9]{1,3}(?:(?:,[0-9]{3}){1,4}|(?:\.[0-9]{3}){1,4}|(?:[''_\u2019][0-9]{3}){1,4}))'
        '|[0-9]{1,2}(?! (?:128|256|512) [GT]B)(?:' || blank || '[0-9]{3}){1,4}'
        '|[0-9]{3}(?:' || blank || '[0-9]{3}){0,3}' || blank || '(?:000'
        '|[0-9]{3}(?= ?(?:[kKMGT]i?B|[mc]?l|k?g|[kcm]?m|EUR|USD|€)(?!\w))))(?:[.,][0-9]{1,2})?(?!\w|[.,][0-9])';
    after constant text := '(?:(?: ?[/-] ?(?!0)|\.|[ )] ?(?!0[0-9]{2,4} [0-9]{5}|(?:19|20)[0-9]{2}(?![0-9]| [0-9])))'
        '[0-9]{2,}(?![0-9]|:[0-9]))';
    dialled constant text := '(?<![\w.,:/-])(?:\(?(?:\+|00)[1-9][0-9]{0,2}\)?[ /.-]?(?:\(0\) ?)?\(?[0-9]{1,14}' || after || '*'
        '|\(?0[1-9][0-9]{0,5}' || after || '+'
        '|(?:\+?1[-. ])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[-.])[0-9]{3}[-.][0-9]{4}'
        '|(?!19|20)[0-9]{4}(?: [0-9]{4}){3}|[0-9]+(?:[/.-][0-9]+){2,})(?!\w|[/.:-][0-9])';
    forms text[] := '{}';
begin
    if content ~ '[0-9A-Fa-f]{2}[:-][0-9A-Fa-f]{2}[:-]|[A-Za-z]{2}[0-9]{2} [0-9A-Za-z]{4} ' then
        forms := array(
            select distinct joined || ' ' || ltrim(joined, '0')
            from regexp_matches(
                content,
                '\m(?:[A-Za-z]{2}[0-9]{2}(?: (?:[0-9]{4}|[A-Za-z]{4}))(?: [0-9]{4}){2,6}(?: [0-9]{1,3})?'
                    || '|[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5})\M',
                'g'
            ) as account, translate(account[1], ' :-', '') as joined
            limit most
        );
    end if;
    if translate(content, '0123456789', '') = content then
        return array_to_string(forms, ' ');
    end if;
    if content ~ '[0-9] ?[°[:alpha:]]' then
        forms := forms || array(
            select distinct plain_number(substring(number[1] from '[0-9.,]+'), substring(number[1] from '[[:alpha:]]+'))
            from regexp_matches(content, '(?<![\w.,])[0-9]{1,6}(?:[.,][0-9]{1,3})?' || magnitude || '\M', 'g') as number
            limit most
        ) || array(
            select distinct translate(measured[1], ',' || E'\u00A0\u202F\u2019' || ' °''_', '.')
            from regexp_matches(content, '(?<![\w.,])[0-9]{1,9}(?:[.,][0-9]{1,3})? ?' || measure || '\M', 'g') as measured
            limit most
        );
    end if;
    if strpos(content, '0') > 0 then
        forms := forms || array(
            select distinct ltrim(number[1], '0')
            from regexp_matches(content, '\m(?:0+[1-9][0-9]{1,18}|00+[1-9])\M', 'g') as number limit most
        );
    end if;
    if length(content) > 10 then
        forms := forms || array(
            select distinct left(hash[1], short)
            from regexp_matches(content, '\m[0-9a-f]{11,64}\M', 'g') as hash, unnest(array[7, 8, 10]) as short
            where hash[1] ~ '[a-f]' and hash[1] ~ '[0-9]' limit most
        );
    end if;
    if translate(content, '€$£%', '') <> content then
        forms := forms || array(
            select distinct case translate(beside[1], E'0123456789 \u00A0\u202F', '')
                when '€' then 'EUR euro' when '$' then 'USD dollar' when '£' then 'GBP pound' else 'percent' end
            from regexp_matches(content, '[€$£] ?[0-9]|[0-9][ \u00A0\u202F]?[€$£%](?!\w)', 'g') as beside
        );
    end if;
    if content ~ '[0-9][ ''_\u00A0\u202F\u2019()/.,-]{1,3}[0-9]|\+[0-9]' then
        forms := forms || array(
            select distinct concat_ws(
                '.', translate(left(number[1], length(number[1]) - length(fraction)), E' ''_.,\u00A0\u202F\u2019', ''),
                case when translate(fraction, '.,0', '') <> '' then substr(fraction, 2) end
            )
            from regexp_matches(content, grouped, 'g') as number, coalesce(
                case when left(right(number[1], 3), 1) in ('.', ',') then right(number[1], 3) end,
                case when left(right(number[1], 2), 1) in ('.', ',') then right(number[1], 2) end, ''
            ) as fraction
            limit most
        ) || array(
            select distinct joined_digits(number[1]) from regexp_matches(content, dialled, 'g') as number limit most
        ) || array(
            select distinct translate(measured[1], E' .,''_\u00A0\u202F\u2019°', '')
            from regexp_matches(
                content,
                '(?<![\w.,])[0-9]{1,3}(?! (?:128|256|512) [GT]B)(?:[., ''_\u00A0\u202F\u2019][0-9]{3})+ ?' || measure || '\M',
                'g'
            ) as measured limit most
        );
    end if;
    return array_to_string(forms, ' ');
end
$$;

-- The first day that a text spells out with its year, in its first lines: 2026-10-21, 21.10.2026, 10/21/2026, October 21,
-- 2026, 21 October 2026, 21. Oktober 2026. 3/4/2026 is in March. Null: none.
create function day_in(content text) returns date
language plpgsql immutable parallel safe as $$
declare
    month constant text := '(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?'
        '|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)';
    year constant text := '(?:19|20)\d\d(?!\d)';
    date constant text := '(?:(?:19|20)\d\d[-/]\d\d?[-/]\d\d?(?!\d)|\d\d?\.\d\d?\.' || year || '|\d\d?/\d\d?/' || year
        || '|' || month || '\.?\s+\d\d?(?:st|nd|rd|th)?,?\s+' || year
        || '|\d\d?(?:st|nd|rd|th)?(?:\s+of)?[\s-]+' || month || '\.?,?[\s-]+' || year || ')';
    -- Months of German, French and Spanish after a day, in the order of the year; those that are read as English are left out.
    months constant text[] := array[
        'januar|jänner|janvier|enero', 'februar|février|fevrier|febrero', 'märz|maerz|mars|marzo', 'avril|abril', 'mai|mayo',
        'juin|juni|junio', 'juillet|juli|julio', 'août|aout|agosto', 'septembre|septiembre', 'oktober|octobre|octubre',
        'novembre|noviembre', 'dezember|décembre|decembre|diciembre'
    ];
    foreign_date constant text := '\m(\d\d?)(?:\.|er)?\s+(?:de\s+)?(?:%s)(?:\s+del?)?\M';
    head text := left(content, 1000);
    spelled text;
    parts text[];
    found date;
begin
    if head !~ '(?:19|20)\d\d' then
        return null;
    end if;
    if head ~* '\m\d\d?(?:\.|er)?\s+(?:de\s+)?(?:[jefmasond][[:alpha:]]{2,9})' then
        for place in 1..12 loop
            if head ~* months[place] then
                head := regexp_replace(
                    head, format(foreign_date, months[place]),
                    '\1 ' || substr('janfebmaraprmayjunjulaugsepoctnovdec', 3 * place - 2, 3), 'gi'
                );
            end if;
        end loop;
    end if;
    -- Without groups, which would cost milliseconds: a search for the place alone.
    spelled := lower(substring(head from '(?i)(?<![\w./-])' || date));
    if spelled is null then
        return null;
    end if;
    parts := array(select part[1] from regexp_matches(spelled, '\d+|[a-z]{3,}', 'g') as part);
    if parts[1] ~ '^[a-z]' or (strpos(spelled, '/') > 0 and length(parts[1]) < 4 and parts[1]::integer <= 12) then
        parts := array[parts[3], parts[1], parts[2]];
    elsif length(parts[1]) < 4 then
        parts := array[parts[3], parts[2], parts[1]];
    end if;
    if parts[2] ~ '^[a-z]' then
        parts[2] := (strpos('janfebmaraprmayjunjulaugsepoctnovdec', left(parts[2], 3)) + 2) / 3;
    end if;
    if parts[2]::integer not between 1 and 12 or parts[3]::integer not between 1 and 31 then
        return null;
    end if;
    found := make_date(parts[1]::integer, parts[2]::integer, 1) + (parts[3]::integer - 1);
    return case when extract(month from found) = parts[2]::integer then found end;
end
$$;

-- The day that a memory tells of: that of occurred_at where it was given, so many minutes east of UTC, else the one that
-- its text spells out. Null: none.
create function day_told(content text, occurred_at timestamptz, minutes_east integer) returns date
language sql immutable parallel safe
return coalesce((occurred_at at time zone 'UTC' + coalesce(minutes_east, 0) * interval '1 minute')::date, day_in(content));

-- The words that full text finds a memory by: its content, who said it, and the day that it tells of (English month name,
-- day, year). The caller names the language.
create function lexemes_of(tenant integer, language text, content text, speaker text, told_on date)
returns tsvector
language sql immutable parallel safe set plan_cache_mode = 'force_generic_plan'
return (
    select coalesce(array_to_tsvector(array_agg(lexeme_prefix(tenant) || word)), ''::tsvector)
    from unnest(words_in(language, concat_ws(
        ' ', content, speaker, to_char(told_on, 'FMDD FMMonth YYYY'),
        other_words(concat_ws(' ', content, speaker)), other_numbers(content)
    ))) as word
    where octet_length(word) <= 1000  -- a lexeme may have 2,046 bytes, no word of a language has
);

-- The words that a question asks for, in each of these languages; a pasted document asks by its beginning. One that has
-- nothing but stop words asks for these.
create function words_asked(languages text[], question text) returns text[]
language sql immutable parallel safe set plan_cache_mode = 'force_generic_plan'
return (
    select array(
        select distinct word
        from unnest(case when asked.words = '{}' then words_in('simple', left(question, 4000)) else asked.words end) as word
        where octet_length(word) <= 1000
    )
    from (
        select array(
            select word from unnest(languages) as language
            cross join lateral unnest(words_in(language, left(question, 4000))) as word
        ) as words
    ) asked
);

-- So many texts, each once: what an ON CONFLICT of a distributed table cannot ask by a subquery.
create function first_distinct(texts text[], most integer) returns text[]
language sql immutable parallel safe
return array(select distinct one from unnest(texts) as one limit most);


-- An entry's old or new values without somebody's words: those of properties, whose names and number are theirs too, and
-- the name of a project.
create function without_words(told jsonb) returns jsonb
language sql immutable parallel safe
return told || case when told ? 'properties' then '{"properties": {}}' else '{}' end::jsonb
    || case when told ? 'project' then '{"project": null}' else '{}' end::jsonb;

-- Up to which number an entry of an export keeps it; one with a higher number gets one of its own. All tenants' entries
-- are numbered by one sequence, and no export may move it near its end, nor to where other exports could not be restored:
-- this is what 1,000 entries a second take 35 years for, and an eight millionth of what there is.
create function audit_ids_kept() returns bigint
language sql immutable parallel safe
return 1099511627776;


-- Tenants
-- =======

-- The directory: each namespace has a number, its tenant, which is never given again. A backup brings the numbers back.
-- The row is written about once a second while sessions are in use.
create table namespaces (
    tenant                 integer generated always as identity primary key,
    namespace              text not null unique check (namespace <> ''),
    language               text not null default 'english',  -- of full text, see languages()
    created_at             timestamptz not null default now(),
    -- The clock that runs only while a session is in use. in_use holds, by Redis's clock, when sessions were in use since
    -- in_use_since (null: ever); the clock gains what of a further interval is not in it yet.
    active_hours           double precision not null default 0,
    in_use                 tstzmultirange not null default '{}',
    in_use_since           timestamptz,
    links_decayed_at_hours double precision not null default 0,  -- what the clock showed when links last decayed
    -- Of private memories, see docs/private.md: what a new one is that does not say; whether somebody else has to consent
    -- before one is shared; whether administrators read them.
    visibility             text check (visibility in ('private', 'shared')),
    sharing_consent        boolean not null default false,
    admins_read            boolean not null default false
) with (fillfactor = 50);

-- Bearer tokens. Only the SHA-256 of a token is kept: a token is 32 random bytes, so nothing slower is needed.
create table tokens (
    tenant     integer not null,
    id         uuid not null,        -- UUIDv7
    principal  text not null check (principal <> ''),
    scopes     text[] not null check (scopes <@ array['read', 'write', 'verify', 'admin']),
    untrusted  boolean not null default false,
    sha256     text not null unique check (length(sha256) = 64),
    label      text,
    project    text,                 -- of calls that name none
    visibility text check (visibility in ('private', 'shared')),  -- of what is stored without saying; null: as the namespace has it
    created_by text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    primary key (tenant, id)
);


-- Memories
-- ========

-- Which model made a vector. Each has its own partial HNSW index, see make_vector_index. Of several models the last
-- chosen is the one that all vectors become.
create table embedding_models (
    id         smallint generated always as identity primary key,
    name       text not null,
    sha256     text not null,                       -- of the model file; empty for a model behind an endpoint
    dimensions integer not null check (dimensions between 1 and 4000),  -- what an HNSW index on halfvec takes
    created_at timestamptz not null default now(),
    chosen_at  timestamptz not null default now(),  -- when the latest process began that makes vectors with it
    used_at    timestamptz not null default now(),  -- when somebody last was about to write one; within minutes
    retired_at timestamptz,                         -- without vectors, and without an index
    unique (name, sha256, dimensions)
);

-- Everything an edge can end in: memories (name null) and named entities. Memories follow the key (tenant, id, partition),
-- so a memory is in one partition only; a promotion changes both rows in one statement.
create table nodes (
    tenant      integer not null,
    id          uuid not null,
    label       text not null,
    name        text,
    partition   text not null check (partition in ('trusted', 'untrusted')),
    external_id text,
    owner       text collate "C" check (owner <> ''),  -- whose a private memory is, see transaction.py; null: everybody's
    properties  jsonb not null default '{}',
    created_by  text,  -- who wrote a named node first, and who changed it last
    updated_by  text,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    primary key (tenant, id),
    unique (tenant, id, partition)
);
create unique index nodes_identity on nodes (tenant, label, name) where name is not null;
create index nodes_name on nodes (tenant, name) where name is not null;
-- By owner, so that a taken one tells nobody of what is private to somebody else.
create unique index nodes_external_id on nodes (tenant, external_id, owner) nulls not distinct where external_id is not null;
-- Names that resemble one that was not found: the same in another case, or with the same beginning.
create index nodes_name_folded on nodes (tenant, lower(name) text_pattern_ops) where name is not null;

-- A number for a vector. Models give equal texts equal vectors, and texts that differ in what they do not read.
create function vector_key(embedding halfvec) returns bigint
language sql immutable parallel safe
return ('x' || left(md5(halfvec_send(embedding)), 16))::bit(64)::bigint;

-- Whether a vector stays out of the vector index, since that holds enough equal ones. An element of an HNSW index has 32
-- links: some 330 equal vectors link to each other alone, and a search that comes among them finds nothing else, whosever
-- they are. Searches find what is outside by `memories_repeated`.
--
-- Declared immutable, which generated columns have to be, though the answer depends on what stands there. It is asked
-- when a vector or its partition is written, and kept; any answer is right, since both places are searched.
-- `stands_often` is volatile and so sees the rows that its own statement wrote. A restore of a dump writes rows before it
-- makes indexes: then nothing is looked for, and all come into the index.
create function is_repeated(partition text, model smallint, embedding halfvec) returns boolean
language plpgsql immutable set search_path = public, pg_temp as $$
begin
    return model is not null and to_regclass('memories_equal') is not null
        and stands_often(partition, model, vector_key(embedding));
end
$$;

create table memories (
    tenant            integer not null,
    node_id           uuid not null,
    partition         text not null,
    owner             text collate "C" check (owner <> ''),  -- whose it is while it is private; null: everybody's
    content           text not null,
    confidence        double precision not null check (confidence between 0 and 1),
    source            text not null check (source in ('extracted', 'explicit')),
    source_type       text,
    speaker           text,
    occurred_at       timestamptz,
    occurred_offset   integer,             -- minutes east of UTC, as it was given with occurred_at
    told_on           date generated always as (day_told(content, occurred_at, occurred_offset)) stored,
    thread            text,
    position          integer,             -- in its thread
    tags              text[],
    project           text,
    metadata          jsonb not null default '{}',
    -- A memory that fits no sector says so: its sector is null, its source is none.
    sector            text check (sector in ('emotional', 'episodic', 'semantic', 'procedural', 'reflective')),
    sector_source     text check (sector_source in ('auto', 'manual', 'none')),
    sector_confidence real check (sector_confidence between 0 and 1),  -- of an automatic sector: the chance that it is right
    standing          boolean,             -- asked for for good; null: not, as far as is known
    standing_source   text check (standing_source in ('auto', 'given')),  -- null: nothing has told it yet
    evidence          jsonb,               -- citations, and what comparisons found of each; null: none
    verification      text not null check (verification in ('unverified', 'verified', 'approved', 'rejected')),
    state             text not null check (state in ('pending', 'active', 'archived')),
    promoted_at       timestamptz,
    promoted_by       text,
    -- When it holds, and when it expires. valid_until keeps what somebody gave; what replaced it ends it at superseded_from
    -- at the latest.
    valid_from        timestamptz,
    valid_until       timestamptz,
    expires_at        timestamptz,
    supersedes        uuid,                -- what it superseded last
    superseded_by     uuid,                -- null again when the replacement was erased; superseded_at keeps it hidden
    superseded_at     timestamptz,
    superseded_from   timestamptz,         -- from when what replaced it holds
    lexemes           tsvector not null,   -- see lexemes_of
    embedding         halfvec,             -- of the content alone; null while pending
    model_id          smallint references embedding_models (id),
    -- Vectors of the pieces of a long content in order, by the same model: who changes either takes them away. Null: not
    -- made yet; none: the model reads the content whole. Outside of the row, so that only who asks for them reads them.
    pieces            halfvec[] storage external,
    load_id           integer,             -- the load that brought it, if that was a large one; never changed
    vector_key        bigint generated always as (vector_key(embedding)) stored,  -- null while pending
    -- Whether the vector index held enough equal vectors already. See `is_repeated`.
    repeated          boolean not null generated always as (is_repeated(partition, model_id, embedding)) stored,
    links_made_at     timestamptz,         -- null: the similarity links are still to be made
    active_hours      double precision not null default 0,  -- what the clock showed when it was stored
    created_by        text not null,
    created_at        timestamptz not null default now(),
    updated_at        timestamptz not null default now(),
    check ((embedding is null) = (model_id is null)),
    check (state <> 'active' or embedding is not null),
    check (superseded_by <> node_id)
) partition by list (partition);

create table memories_trusted partition of memories for values in ('trusted')
    with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table memories_untrusted partition of memories for values in ('untrusted')
    with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- How often memories were written: a search whose copy has seen as many writes need not look at rows. A number is taken
-- before the rows are written, and who writes holds a lock until others see them: where nobody held it when a number was
-- read, its writes had been committed, or undone. What is written in no namespace, by whoever owns the tables, has the first
-- sequence; a few namespaces share each of the others, so that the writes of one make few others look.
create sequence memories_written;
do $$
begin
    for place in 0..31 loop
        execute format('create sequence memories_written_%s', place);
    end loop;
end
$$;
create function writes_of(tenant integer) returns text
language sql immutable parallel safe
return concat('memories_written', '_' || tenant % 32);
create function note_memories_written() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    tenant constant integer := nullif(current_setting('app.tenant', true), '')::integer;
begin
    perform pg_advisory_xact_lock_shared(1164012, coalesce(tenant % 32 + 2, 1));
    perform nextval(writes_of(tenant)::regclass);
    return null;
end
$$;
create trigger memories_written before insert or update or delete or truncate on memories
    for each statement execute function note_memories_written();

-- No index may hold a sector column, nor name one in its condition: writing the sector of a memory would then pay an
-- insert into each of its indexes, of which the one of vectors costs milliseconds.
create index memories_superseded on memories (tenant, superseded_by) where superseded_by is not null;
create index memories_lexemes on memories using gin (lexemes);
-- Without node_id, or a lookup by key could look as cheap here while the table was never analyzed: among equals in time
-- the sort that follows decides.
create index memories_recent on memories (tenant, created_at desc);
-- What somebody sees, without reading what is private to others.
create index memories_seen on memories (tenant, owner);
-- In the order in which a thread is read on from a memory of it.
create index memories_thread on memories (tenant, thread, position, created_at, node_id) where thread is not null;
create index memories_unfinished on memories (tenant, node_id) where state = 'pending';
create index memories_moment on memories (tenant, (coalesce(occurred_at, created_at)));
create index memories_told on memories (tenant, told_on) where told_on is not null;
-- What lists are filtered by and few rows have, so that no list reads all others. Their conditions stand in fragment
-- `listed` as they stand here, or no plan would have these indexes.
create index memories_hidden on memories (tenant, created_at desc) where state = 'archived' or expires_at is not null;
create index memories_judged on memories (tenant, created_at desc) where verification <> 'unverified';
create index memories_source_type on memories (source_type, tenant) where source_type is not null;
create index memories_author on memories (created_by, tenant);
create index memories_beginning on memories (valid_from, tenant) where valid_from is not null;
-- What is no standing wish is told without a write to this column, so that only the few that are pay for indexes.
create index memories_standing on memories (tenant, created_at desc) where standing;
-- The equal vectors of everybody that are in the vector index, and those of a tenant that are not.
create index memories_equal on memories (vector_key, model_id) where not repeated;
create index memories_repeated on memories (tenant, vector_key, node_id desc) where repeated;
-- Whether so many equal vectors stand in the index of a partition and model, whosever they are. See `is_repeated`.
create function stands_often(partition text, model smallint, key bigint) returns boolean
language sql volatile security definer set search_path = public, pg_temp
set plan_cache_mode = 'force_generic_plan' set enable_seqscan = off  -- planned for each row it takes 20 times as long
return (
    select count(*) = 64
    from (
        select from memories m
        where m.vector_key = key and m.model_id = model and m.partition = stands_often.partition and not m.repeated
        limit 64
    ) equal
);
-- Few memories cite anything. What a comparison finds is written only where it differs from what is there.
create index memories_cited on memories (tenant, created_at desc) where evidence is not null;
create index memories_grounds on memories using gin (ground_keys(tenant, evidence)) where evidence @? '$[*].memory_id';
-- The key after them: of indexes that look equally cheap, as all of an empty table do, the latest is taken, and the plan
-- of the cascade from nodes is kept.
alter table memories
    add primary key (tenant, node_id, partition),
    add foreign key (tenant, node_id, partition) references nodes (tenant, id, partition) on delete cascade;
-- An index that is no key does not begin with the tenant, here and below: while the statistics call the table empty it
-- would look as good as a key, and read all rows of the tenant.
create index memories_load on memories (load_id, tenant) where load_id is not null;
-- Most rows have no tags, and cost their writers nothing here.
create index memories_tags on memories using gin (tag_keys(tenant, tags)) where tags is not null;
-- Who searches a project sees what is in none too, so rows without one are in the index.
create index memories_project on memories (project, tenant);
-- For upkeep to archive what has expired; few rows ever expire, and what is archived leaves the index.
create index memories_expiring on memories (expires_at, tenant) where expires_at is not null and state <> 'archived';
-- Long memories that lack their pieces. Bytes, since they are known without unpacking a content, and say better than
-- characters how much of a text a model reads.
create index memories_without_pieces on memories (tenant, node_id)
    where pieces is null and state = 'active' and octet_length(content) > 1000;

-- Few memories have an end of their own: what is counted by totals leaves them out, and counts them as they are.
create index memories_ending on memories (tenant) where valid_until is not null;

-- How many memories of each kind there are from each day (of UTC), so that counts read no memory. A trigger notes what each
-- row brings or takes; upkeep folds these notes together, and a count adds up what there is. Nobody waits for anybody
-- else's: a note is a row of its own. What depends on the time is left to those who read: see fragment `totals`.
create table memory_totals (
    tenant        integer not null,
    id            bigint generated always as identity,
    owner         text collate "C" check (owner <> ''),  -- as memories have it
    partition     text not null,
    project       text,
    sector        text not null,  -- as it reads
    state         text not null,  -- as it is kept
    is_superseded boolean not null,
    is_rejected   boolean not null,
    day           date not null,
    memories      bigint not null,
    is_folded     boolean not null default false,
    is_compared   boolean not null default false,  -- with the memories, since it was written
    primary key (tenant, id)
) with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create unique index memory_totals_folded on memory_totals
    (tenant, day, partition, sector, state, is_superseded, is_rejected, project, owner) nulls not distinct where is_folded;
create index memory_totals_notes on memory_totals (tenant) where not is_folded;

-- What totals have to be. Its own end leaves a memory out.
create view memories_counted as
select m.tenant, m.owner, m.partition, m.project,
    case when m.sector_source = 'none' then 'none' else coalesce(m.sector, 'semantic') end as sector, m.state,
    (m.superseded_by is not null or m.superseded_at is not null) as is_superseded, m.verification = 'rejected' as is_rejected,
    (coalesce(m.occurred_at, m.created_at) at time zone 'UTC')::date as day, count(*) as memories
from memories m
where m.valid_until is null
group by 1, 2, 3, 4, 5, 6, 7, 8, 9;

create function note_total() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
    if tg_op <> 'INSERT' and old.valid_until is null then
        insert into memory_totals
            (tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day, memories)
        values (
            old.tenant, old.owner, old.partition, old.project,
            case when old.sector_source = 'none' then 'none' else coalesce(old.sector, 'semantic') end, old.state,
            old.superseded_by is not null or old.superseded_at is not null, old.verification = 'rejected',
            (coalesce(old.occurred_at, old.created_at) at time zone 'UTC')::date, -1
        );
    end if;
    if tg_op <> 'DELETE' and new.valid_until is null then
        insert into memory_totals
            (tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day, memories)
        values (
            new.tenant, new.owner, new.partition, new.project,
            case when new.sector_source = 'none' then 'none' else coalesce(new.sector, 'semantic') end, new.state,
            new.superseded_by is not null or new.superseded_at is not null, new.verification = 'rejected',
            (coalesce(new.occurred_at, new.created_at) at time zone 'UTC')::date, 1
        );
    end if;
    return null;
end
$$;
create trigger memory_came after insert or delete on memories for each row execute function note_total();
-- What is written most often, links_made_at and pieces, is no affair of totals.
create trigger memory_changed after update on memories for each row when (
    (old.owner, old.project, old.sector, old.sector_source, old.state, old.verification, old.superseded_by, old.superseded_at,
        old.valid_until, old.occurred_at, old.created_at)
    is distinct from
    (new.owner, new.project, new.sector, new.sector_source, new.state, new.verification, new.superseded_by, new.superseded_at,
        new.valid_until, new.occurred_at, new.created_at)
) execute function note_total();

-- Counters that change by reading and by feedback; apart from memories, whose every update costs an HNSW insert.
create table memory_usage (
    tenant            integer not null,
    node_id           uuid not null,
    access_count      bigint not null default 0,
    accessed_at       timestamptz,
    last_active_hours double precision not null default 0,  -- what the clock showed when it was last found
    helped            double precision not null default 0,  -- outcome signals for, weighted
    hindered          double precision not null default 0,  -- and against
    primary key (tenant, node_id),
    foreign key (tenant, node_id) references nodes (tenant, id) on delete cascade
) with (fillfactor = 70);

-- Which rows of import files have gone in, for good: a file that was edited is imported again without doubling what is
-- there, and what was forgotten or erased since stays out. No foreign key: a digest outlives its memory.
create table imported_rows (
    tenant    integer not null,
    digest    bytea not null check (octet_length(digest) = 16),  -- of what the row says
    memory_id uuid not null,                                     -- that the row became
    trusted   boolean not null,  -- when it went in: an untrusted importer keeps no trusted row out
    primary key (tenant, digest)
);


-- Links and graph
-- ===============

create table edges (
    tenant               integer not null,
    id                   uuid not null,
    layer                text not null check (layer in ('knowledge', 'association')),
    source_id            uuid not null,
    target_id            uuid not null,
    relation             text not null,
    weight               double precision not null check (weight between 0 and 1),
    origin               text not null check (origin in ('similarity', 'co_retrieval', 'outcome', 'agent', 'import')),
    reinforcement_count  integer not null default 0,
    note                 text,
    declared_from        uuid,  -- the end of a link that an agent or a writer named first
    last_active_hours    double precision not null default 0,
    decayed_active_hours double precision not null default 0,  -- up to where the clock has worn an automatic link down
    memory_sector        text check (memory_sector in ('emotional', 'episodic', 'semantic', 'procedural', 'reflective')),
    sector_source        text check (sector_source in ('auto', 'manual')),
    properties           jsonb not null default '{}',
    valid_from           timestamptz,  -- from when until when a knowledge edge holds; null is open
    valid_until          timestamptz,
    created_by           text,         -- a principal, or engramq's own name for what is linked by itself
    updated_by           text,
    owner                text collate "C" check (owner <> ''),  -- of its private ends, which are one principal's; null: none
    created_at           timestamptz not null default now(),
    updated_at           timestamptz not null default now(),
    primary key (tenant, id),
    foreign key (tenant, source_id) references nodes (tenant, id) on delete cascade,
    foreign key (tenant, target_id) references nodes (tenant, id) on delete cascade,
    check (layer = 'knowledge' or source_id < target_id),  -- a link is undirected: one row per unordered pair
    constraint edges_interval check (valid_until > valid_from)
) with (fillfactor = 75);
create unique index edges_knowledge on edges (tenant, source_id, target_id, relation) where layer = 'knowledge';
create unique index edges_association on edges (tenant, source_id, target_id) where layer = 'association';
-- The edges of a node, the heaviest of a layer first, so that a walk past a hub reads no more of them than it needs. There
-- are no plain indexes beside these: the planner would rather read all of a hub's edges by those and sort them (35 instead
-- of 1 ms for 100,000).
create index edges_out on edges (source_id, tenant, layer, weight desc, id);
create index edges_in on edges (target_id, tenant, layer, weight desc, id);

-- Links that somebody took away: automatic writers do not make them again, an agent may (and removes the tombstone).
create table link_tombstones (
    tenant     integer not null,
    low_id     uuid not null,
    high_id    uuid not null,
    created_at timestamptz not null default now(),
    primary key (tenant, low_id, high_id),
    foreign key (tenant, low_id) references nodes (tenant, id) on delete cascade,
    foreign key (tenant, high_id) references nodes (tenant, id) on delete cascade,
    check (low_id < high_id)
);
create index link_tombstones_high on link_tombstones (high_id, tenant);

-- Links that were requested while an end was pending, in the order of their ids: each is made as a connect, or dropped,
-- once both ends are active or one is gone. No foreign keys, so that what waits for an erased end is settled too.
create table deferred_links (
    tenant     integer not null,
    id         uuid not null,     -- UUIDv7
    source_id  uuid not null,
    target_id  uuid not null,
    request    jsonb not null,    -- a LinkRequest without its ends
    principal  jsonb not null,    -- who requested it
    command_id uuid not null,     -- whose answer says later what became of it
    item       integer,           -- its index in a batch
    created_at timestamptz not null default now(),
    primary key (tenant, id)
);
create index deferred_links_age on deferred_links (tenant, created_at);
create index deferred_links_source on deferred_links (source_id, tenant);
create index deferred_links_target on deferred_links (target_id, tenant);

-- Pairs that searches found together, by the session instances in which they did: the third one links them.
create table co_retrievals (
    tenant    integer not null,
    low_id    uuid not null,
    high_id   uuid not null,
    instances text[] not null,    -- session and its instance; no more than are needed
    seen_at   timestamptz not null default now(),
    primary key (tenant, low_id, high_id),
    foreign key (tenant, low_id) references nodes (tenant, id) on delete cascade,
    foreign key (tenant, high_id) references nodes (tenant, id) on delete cascade,
    check (low_id < high_id)
) with (fillfactor = 75);
create index co_retrievals_age on co_retrievals (seen_at, tenant);
create index co_retrievals_high on co_retrievals (high_id, tenant);

-- Changes of constitutive edges that two different principals must consent to. Rows outlive the edges and nodes that they
-- speak of.
create table proposals (
    tenant      integer not null,
    id          uuid not null,
    action      text not null check (action in ('reclassify', 'delete', 'change', 'share')),
    target_id   uuid not null,    -- an edge, a node that is to be deleted, or a memory that is to be shared
    covers      uuid[] not null,  -- the constitutive edges that consent is given for
    new_sector  text check (new_sector in ('emotional', 'episodic', 'semantic', 'procedural', 'reflective')),
    -- What of the edge would be different, as it would be: {"weight": 0.5, "properties": {"since": 1831}}. Consent is given
    -- to it, and jsonb compares it whatever the order of its keys. Of a memory the digest that it had: {"seen": "0f3a"}.
    change      jsonb check (jsonb_typeof(change) = 'object' and change <> '{}'),
    proposed_by text not null,
    reason      text,
    created_at  timestamptz not null default now(),
    expires_at  timestamptz not null,
    rejected_at timestamptz,
    used_at     timestamptz,
    primary key (tenant, id),
    check ((action = 'reclassify') = (new_sector is not null)),
    check (action = 'share' or (action = 'change') = (change is not null))
);
create index proposals_target on proposals (tenant, target_id);
create index proposals_recent on proposals (tenant, created_at desc, id desc);

-- Who approves a proposal: once each.
create table approvals (
    tenant      integer not null,
    proposal_id uuid not null,
    principal   text not null,
    approved_at timestamptz not null default now(),
    primary key (tenant, proposal_id, principal),
    foreign key (tenant, proposal_id) references proposals (tenant, id) on delete cascade
);

-- Knowledge edges and named nodes that were deleted: kept for as long as a deletion can be undone, then removed by upkeep.
-- The audit log keeps no names; they are here, where they can be erased.
create table deleted_graph (
    tenant     integer not null,
    deletion   bigint not null,       -- the id of its entry in audit_log
    id         uuid not null,         -- of a node, or of an edge that was deleted by itself or with its node
    is_node    boolean not null,
    record     jsonb not null,        -- the row as it was, without its tenant
    created_by text,                  -- whose the row was
    deleted_at timestamptz not null,  -- the time of that entry
    primary key (tenant, deletion, id)
) with (autovacuum_vacuum_scale_factor = 0.05);
create index deleted_graph_age on deleted_graph (tenant, deleted_at);
create index deleted_graph_node on deleted_graph (id, tenant) where is_node;  -- the deletion that took a node


-- Searching
-- =========

-- How many memories of a tenant hold a lexeme: lets full text leave out the commonest words of a question. Upkeep counts
-- large namespaces only; a lexeme that is not here is rare.
create table lexeme_counts (
    tenant    integer not null,
    partition text not null check (partition in ('trusted', 'untrusted')),
    lexeme    text not null,  -- with its prefix
    memories  bigint not null,
    primary key (tenant, partition, lexeme)
);

-- Namespaces with memories whose words are those of another language than the namespace's, or of a former rule (none).
-- Searches look for the words of a question in all of these languages until upkeep has made all words anew, so they miss
-- nothing meanwhile.
create table lexeme_rebuilds (
    tenant           integer primary key,
    former_languages text[] not null,
    changed_at       timestamptz not null default now(),
    passes           integer not null default 0,  -- through all memories, since then
    began_at         timestamptz,                 -- the pass that is under way; null between two
    after_id         uuid not null default '00000000-0000-0000-0000-000000000000',  -- how far that pass is
    done             bigint not null default 0    -- memories that were looked at, in all passes
) with (fillfactor = 50);

-- Bulk loads whose rows are not in the vector index, or not surely; a row goes when the index has been built. Inserting a
-- row into the index takes many times what building it takes a row. Every search by index compares these rows exactly.
create table loads (
    tenant    integer not null,
    id        integer generated always as identity,
    partition text not null check (partition in ('trusted', 'untrusted')),
    model_id  smallint not null references embedding_models (id),
    covered   boolean not null default false,  -- over: what touches the vector index from now on takes its rows in
    rows      integer not null default 0,      -- that have come
    loaded_at timestamptz not null default now(),
    primary key (tenant, id)
) with (fillfactor = 50);
create unique index loads_open on loads (tenant, partition, model_id) where not covered;

-- The change of the embedding model that is under way, as the process that does it reports; no row when there is none. It
-- is about the whole store.
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


-- Commands
-- ========

-- One row per write command that has ended: delivery is at least once, effects are once. `answer` is without memory
-- contents (they are read again when it is sent again), so that erasing a memory leaves nothing here.
create table ledger (
    tenant              integer not null,
    command_id          uuid not null,
    principal           text not null,
    principal_untrusted boolean not null default false,  -- one name, trusted and untrusted, is two principals
    command             text not null,  -- the command's tag
    idempotency_key     text,
    fingerprint         text not null default '',
    memory_id           uuid,           -- the memory that the answer is about
    attempt             integer not null default 1,
    answer              jsonb,          -- no index names it or what changes with it, so it is written in place
    created_at          timestamptz not null default now(),
    primary key (tenant, command_id)
) with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05);
create unique index ledger_idempotency on ledger (tenant, principal, principal_untrusted, idempotency_key)
    where idempotency_key is not null;
create index ledger_age on ledger (created_at, tenant);

-- Who did what. Append-only for the workers, by grant. Its text about somebody goes by blank_audit alone.
create table audit_log (
    tenant     integer not null,
    id         bigint generated always as identity,
    at         timestamptz not null default now(),
    namespace  text not null,  -- who reads the log reads names, whatever has become of the rest
    actor      text not null,
    action     text not null,
    target_id  uuid,
    old        jsonb,
    new        jsonb,
    reason     text,
    command_id uuid,
    owner      text collate "C" check (owner <> ''),  -- whose what it names was when it was written; null: everybody's
    brought_at   timestamptz,  -- when an export brought it, of which nobody here knows whether it is true; null: written here
    brought_from text,         -- the namespace that the export says it was made of
    primary key (tenant, id),
    check ((brought_at is null) = (brought_from is null))
);
create index audit_log_target on audit_log (tenant, target_id);
create index audit_log_command on audit_log (command_id, tenant);
-- What names the ends of a link, in entries that give a reason: its reason may quote a memory at either end.
create index audit_log_reason_source on audit_log (tenant, (old ->> 'source_id'))
    where reason is not null and old ? 'source_id';
create index audit_log_reason_target on audit_log (tenant, (old ->> 'target_id'))
    where reason is not null and old ? 'target_id';
create index audit_log_wordy on audit_log (tenant, id)
    where reason is not null or old @? '$.properties.*' or new @? '$.properties.*' or old ->> 'project' is not null;

-- The places of entries in the chain of the audit log (see schemas/receipts.py), in the order in which upkeep came to
-- them. Append-only for the workers; salts go with the words by blank_audit.
create table audit_chain (
    tenant integer not null,
    place  bigint not null,  -- 1, 2, 3 and so on
    entry  bigint not null,  -- its id in audit_log
    salt   bytea,            -- of the digest; null once words of the entry were erased
    digest bytea not null,   -- of the salt and of what the entry says
    hash   bytea not null,   -- of the place before and of this one
    primary key (tenant, place)
);
create unique index audit_chain_entry on audit_chain (tenant, entry);


-- Webhooks
-- ========

-- Who is notified of what. The secret of a webhook is kept nowhere: it follows from the installation's key and the
-- webhook's id.
create table webhooks (
    tenant       integer not null,
    id           uuid not null,
    url          text not null,
    events       text[] not null,
    with_content boolean not null,
    key_id       text not null,  -- which key the secret follows from: a worker with another one signs nothing
    created_by   text not null,
    created_at   timestamptz not null default now(),
    failures     integer not null default 0,            -- tries that failed since one of its messages was taken
    again_at     timestamptz not null default now(),    -- nothing new is sent before
    turn_at      timestamptz not null default '-infinity',  -- when messages to it were last begun
    primary key (tenant, id)
);

-- Messages still to be sent, written in the transaction of the command's ledger row. A row goes when it was received; one
-- that is dead waits for somebody to look, and goes after a month.
create table webhook_outbox (
    tenant     integer not null,
    id         uuid not null default gen_random_uuid(),  -- the receiver's webhook-id, the same in every try
    webhook_id uuid not null,
    event      text not null,
    memory_id  uuid,
    told       jsonb not null,  -- ids and words of the vocabulary, never contents: these are read when it is sent
    at         timestamptz not null default clock_timestamp(),
    attempts   integer not null default 0,
    next_at    timestamptz not null default clock_timestamp(),
    problem    text,            -- of the last try
    dead_at    timestamptz,
    primary key (tenant, id),
    foreign key (tenant, webhook_id) references webhooks (tenant, id) on delete cascade
) with (fillfactor = 70);
create index webhook_outbox_webhook on webhook_outbox (tenant, webhook_id, at);
create index webhook_outbox_due on webhook_outbox (next_at, tenant) where dead_at is null;
create index webhook_outbox_dead on webhook_outbox (dead_at, tenant) where dead_at is not null;
create index webhook_outbox_waiting on webhook_outbox (at, tenant) where dead_at is null;


-- Upkeep
-- ======

-- Where something changed of late: upkeep looks at those namespaces alone, so that idle ones cost nothing. A row says that
-- a transaction which began in that minute may have left something to be done. It goes when a look that began after every
-- such transaction had ended found nothing. Each session writes rows of its own, so that none waits for the end of
-- another's transaction.
create table changes (
    tenant  integer not null,
    minute  timestamptz not null,
    backend integer not null,
    swept   boolean not null default false,  -- nothing is unfinished
    counted boolean not null default false,  -- the counts of words are those of afterwards
    primary key (tenant, minute, backend)
) with (autovacuum_vacuum_scale_factor = 0.05);


-- Row-level security
-- ==================
-- The second lock, behind the predicates of every query: a transaction sees the rows of the tenant that it has entered
-- (app.tenant), and writes no others. Not entered, or left again, it sees nothing. Foreign keys and their cascades run as
-- the owner, past these policies. Partitions need no policy of their own: the workers' role has no rights on them.
--
-- Of the rows that have an owner it sees those whose owner lies between app.owner_first and app.owner_last: its
-- principal's own, all of them where engramq works for everybody, none where nobody has said (a range, since an index
-- serves it in each of these cases; see transaction.py). One policy says both, so that without it nothing is seen.

-- The workers' role: may read and write rows, owns nothing. Superusers count as members of every role.
do $$
begin
    if not exists (select from pg_roles where rolname = 'engramq_worker') then
        create role engramq_worker login nosuperuser nocreatedb nocreaterole noreplication nobypassrls;
    end if;
    if not pg_has_role(current_user, 'engramq_worker', 'member') then
        execute format('grant engramq_worker to %I', current_user);  -- the owner may step down to it
    end if;
end
$$;

do $$
declare
    name text;
begin
    foreach name in array array['nodes', 'memories', 'memory_totals', 'edges', 'audit_log'] loop
        execute format('alter table %I enable row level security', name);
        execute format(
            'create policy own_tenant on %I to engramq_worker '
            'using (tenant = nullif(current_setting(''app.tenant'', true), '''')::integer and (owner is null or owner '
            'between current_setting(''app.owner_first'', true) and current_setting(''app.owner_last'', true))) '
            'with check (tenant = nullif(current_setting(''app.tenant'', true), '''')::integer and (owner is null or owner '
            'between current_setting(''app.owner_first'', true) and current_setting(''app.owner_last'', true)))', name);
    end loop;
    foreach name in array array[
        'namespaces', 'tokens', 'memory_usage', 'imported_rows', 'link_tombstones',
        'deferred_links', 'co_retrievals', 'proposals', 'approvals', 'deleted_graph', 'lexeme_counts', 'lexeme_rebuilds',
        'loads', 'ledger', 'audit_chain', 'webhooks', 'webhook_outbox', 'changes'
    ] loop
        execute format('alter table %I enable row level security', name);
        execute format(
            'create policy own_tenant on %I to engramq_worker '
            'using (tenant = nullif(current_setting(''app.tenant'', true), '''')::integer) '
            'with check (tenant = nullif(current_setting(''app.tenant'', true), '''')::integer)', name);
    end loop;
end
$$;

-- Under a policy an index serves only operators that are marked leakproof, which those of full text, patterns and lower()
-- are not, and only a superuser could mark them. These views read as their owner, whom no policy holds, and have the same
-- condition themselves; being no security barriers they are planned as if the condition stood in the query. That a
-- function in a query could see rows before the condition does is no loss: who may write queries may enter any tenant.
create view memories_in_namespace as
select
    node_id, partition, tenant, thread, position, speaker, occurred_at, told_on, sector, verification, state, superseded_by,
    lexemes, created_at, source_type, created_by, tags, project, superseded_at, valid_from, valid_until, expires_at,
    superseded_from, sector_source, sector_confidence, owner, evidence
from memories
where tenant = nullif(current_setting('app.tenant', true), '')::integer
    and (owner is null
        or owner between current_setting('app.owner_first', true) and current_setting('app.owner_last', true));

create view nodes_in_namespace as
select id, partition, tenant, label, name
from nodes
where tenant = nullif(current_setting('app.tenant', true), '')::integer
    and (owner is null
        or owner between current_setting('app.owner_first', true) and current_setting('app.owner_last', true));


-- Functions of the worker's transaction
-- =====================================

-- Enter a tenant, which has to be this namespace's: a process remembers numbers, and a database that was emptied or
-- brought back from a backup behind its back may know others. Better an error than a stranger's rows. And say whose
-- private rows are seen.
create function enter_tenant(wanted integer, named text, owner_first text, owner_last text) returns void
language plpgsql set plan_cache_mode = 'force_generic_plan' as $$
begin
    perform set_config('app.tenant', wanted::text, true), set_config('app.owner_first', owner_first, true),
        set_config('app.owner_last', owner_last, true);
    if not exists (select from public.namespaces n where n.tenant = wanted and n.namespace = named) then
        raise exception 'another namespace has this tenant' using errcode = 'EQ001';
    end if;
end
$$;

-- Settings of one transaction, for sessions that somebody else has between two transactions: behind a pooler nothing
-- else holds. Each is read back: without the bounds of time a paused worker would keep its locks, and nobody would see.
create function take_settings(names text[], wanted text[]) returns void
language plpgsql as $$
begin
    for each in 1 .. cardinality(names) loop
        perform set_config(names[each], wanted[each], true);
        if current_setting(names[each]) is distinct from wanted[each] then
            raise exception 'the setting % was not taken', names[each] using errcode = 'EQ002';
        end if;
    end loop;
end
$$;

-- The language of the tenant that was entered. Its text is no SQL body: Citus cannot pass one with RETURN on to its nodes
-- that reads a table.
create function language_of(wanted integer) returns text
language sql stable parallel safe
as $$ select coalesce((select n.language from public.namespaces n where n.tenant = wanted), 'english') $$;

-- What the clock of active hours of the tenant shows.
create function clock_of(wanted integer) returns double precision
language sql stable parallel safe
as $$ select coalesce((select n.active_hours from public.namespaces n where n.tenant = wanted), 0) $$;

-- lexemes_of in the language of the tenant.
create function memory_lexemes(tenant integer, content text, speaker text, told_on date)
returns tsvector
language sql stable parallel safe set plan_cache_mode = 'force_generic_plan'
return lexemes_of(tenant, language_of(tenant), content, speaker, told_on);


-- Have the words of all memories made anew in the background: a migration that changes what `words_in` returns ends so.
create function make_words_anew() returns void
language sql volatile
begin atomic
    insert into lexeme_rebuilds (tenant, former_languages) select n.tenant, '{}' from namespaces n
    on conflict (tenant) do update set
        changed_at = excluded.changed_at, passes = 0, began_at = null, after_id = excluded.after_id, done = 0;
end;


-- Functions that run as the owner
-- ===============================
-- What the workers' role may not do itself: questions about all tenants, before one is entered, and a few changes.

-- The tenant of a namespace; null when nobody has written to it yet.
create function tenant_of(named text) returns integer
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select tenant from namespaces where namespace = named;
end;

-- The same for who is about to write: a namespace without a number gets one, and a language. However many come first at
-- once, they get the same one: the one whose insert waited finds the other's number in a statement of its own.
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

-- Whose a bearer token is; no row for one that is not there, revoked or expired.
create function token_owner(digest text) returns table (
    id uuid, namespace text, principal text, scopes text[], untrusted boolean, expires_at timestamptz, project text,
    visibility text
)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select t.id, n.namespace, t.principal, t.scopes, t.untrusted, t.expires_at, t.project, t.visibility
    from tokens t
    join namespaces n on n.tenant = t.tenant
    where t.sha256 = digest and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());
end;

-- Forget the tokens of the tenant that was entered which count no longer; how many. The workers' role, which may revoke
-- any, must not remove one that somebody comes in by.
create function delete_revoked_tokens() returns bigint
language sql volatile security definer set search_path = public, pg_temp
begin atomic
    with gone as (
        delete from tokens
        where tenant = nullif(current_setting('app.tenant', true), '')::integer and revoked_at is not null
        returning 1
    )
    select count(*) from gone;
end;

-- Every namespace.
create function every_namespace() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select namespace from namespaces order by namespace;
end;

-- Namespaces in which something changed that no look has settled yet: no sweep, or no counting of words; or all that are
-- remembered. And what time it is.
create function changed_namespaces(kind text) returns table (namespace text, seen_at timestamptz)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace, now()
    from (
        select distinct c.tenant from changes c
        where kind = 'any' or (kind = 'sweep' and not c.swept) or (kind = 'counts' and not c.counted)
    ) changed
    -- One by one, or all of them would be read.
    cross join lateral (
        select s.namespace from namespaces s where s.tenant = changed.tenant limit 1
    ) n
    order by 1;
end;

-- Settle the changes of these namespaces, each as far as a look that began at that moment has seen them. A transaction
-- lasts 30 seconds at most (`transaction_timeout` of the workers' sessions): after three minutes each that began in a
-- minute has ended. One tenant a statement and the moment as a value, so that each goes to one node of a cluster.
create function settle_changes(kind text, names text[], looked_at timestamptz[]) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    looked record;
begin
    for looked in
        select n.tenant, given.looked_at - interval '3 minutes' as ended
        from unnest(names, looked_at) as given (name, looked_at)
        join namespaces n on n.namespace = given.name
    loop
        update changes c set swept = c.swept or kind = 'sweep', counted = c.counted or kind = 'counts'
        where c.tenant = looked.tenant and c.minute < looked.ended;
        delete from changes c where c.tenant = looked.tenant and c.swept and c.counted;
    end loop;
end
$$;

-- Add the notes of the tenant that was entered to its totals; how many there were. Whoever finds somebody at it waits, or
-- leaves it to them.
create function fold_totals(waits boolean) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    entered constant integer := nullif(current_setting('app.tenant', true), '')::integer;
    notes bigint;
begin
    if waits then
        perform pg_advisory_xact_lock(hashtextextended('engramq.memory_totals', entered));
    elsif not pg_try_advisory_xact_lock(hashtextextended('engramq.memory_totals', entered)) then
        return 0;
    end if;
    with noted as (
        delete from memory_totals where tenant = entered and not is_folded returning *
    ), folded as (
        insert into memory_totals as t
            (tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day, memories, is_folded)
        select tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day, sum(memories), true
        from noted
        group by tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day
        having sum(memories) <> 0
        on conflict (tenant, day, partition, sector, state, is_superseded, is_rejected, project, owner) where is_folded
        do update set memories = t.memories + excluded.memories, is_compared = false
    )
    select count(*) into notes from noted;
    delete from memory_totals where tenant = entered and is_folded and memories = 0;
    return notes;
end
$$;

-- Compare the totals of the tenant that was entered with its memories, and note what is missing or too many; by how many
-- memories they were wrong. One statement sees both as they are at one moment, whoever writes meanwhile.
create function mend_totals() returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    entered constant integer := nullif(current_setting('app.tenant', true), '')::integer;
    wrong bigint;
begin
    perform pg_advisory_xact_lock(hashtextextended('engramq.memory_totals', entered));  -- two would mend it twice
    with missing as (
        select tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day, sum(memories) as memories
        from (
            select tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day, memories
            from memories_counted where tenant = entered
            union all
            select tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day, -memories
            from memory_totals where tenant = entered
        ) both_sides
        group by tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day
        having sum(memories) <> 0
    ), noted as (
        insert into memory_totals
            (tenant, owner, partition, project, sector, state, is_superseded, is_rejected, day, memories)
        select * from missing
    )
    select coalesce(sum(abs(memories)), 0) into wrong from missing;
    update memory_totals set is_compared = true where tenant = entered and is_folded and not is_compared;
    return wrong;
end
$$;

-- Namespaces with totals to be folded.
create function unfolded_namespaces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (select distinct t.tenant from memory_totals t where not t.is_folded) due
    join namespaces n on n.tenant = due.tenant
    order by 1;
end;

-- Namespaces with totals that were written and not compared since: an idle one is looked at no more.
create function uncompared_namespaces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (select distinct t.tenant from memory_totals t where t.is_folded and not t.is_compared) due
    join namespaces n on n.tenant = due.tenant
    order by 1;
end;

-- Namespaces with a memory whose time has passed and that is not archived.
create function expiring_namespaces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (
        select distinct m.tenant from memories m
        where m.expires_at is not null and m.expires_at <= now() and m.state <> 'archived'
    ) due
    join namespaces n on n.tenant = due.tenant
    order by 1;
end;

-- Namespaces with something that is kept for so many days only, and is older.
create function outdated_namespaces(ledger_days integer, pair_days integer, graph_days integer, message_days integer)
returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (
        select l.tenant from ledger l where l.created_at < now() - make_interval(days => ledger_days)
        union
        select c.tenant from co_retrievals c where c.seen_at < now() - make_interval(days => pair_days)
        union
        select d.tenant from deleted_graph d where d.deleted_at <= now() - make_interval(days => graph_days)
        union
        select p.tenant from proposals p where p.created_at <= now() - make_interval(days => graph_days)
        union
        select o.tenant from webhook_outbox o where o.dead_at < now() - make_interval(days => message_days)
    ) due
    join namespaces n on n.tenant = due.tenant
    order by 1;
end;

-- Namespaces whose clock has gained so many hours since their links last decayed.
create function decaying_namespaces(hours double precision) returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace from namespaces n
    where n.active_hours >= n.links_decayed_at_hours + hours
    order by 1;
end;

-- Namespaces whose words are to be made anew, the ones that have waited longest first.
create function rebuilding_namespaces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from lexeme_rebuilds r
    join namespaces n on n.tenant = r.tenant
    order by r.changed_at, n.namespace;
end;

-- Namespaces with long memories that lack their pieces.
create function namespaces_without_pieces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (
        select distinct m.tenant from memories m
        where m.pieces is null and m.state = 'active' and octet_length(m.content) > 1000
    ) due
    join namespaces n on n.tenant = due.tenant
    order by 1;
end;

-- Namespaces with a webhook's message to send; whose last turn was longest ago comes first.
create function namespaces_to_tell() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from (
        select distinct o.tenant from webhook_outbox o where o.dead_at is null and o.next_at <= now()
    ) due
    join namespaces n on n.tenant = due.tenant
    left join (select tenant, max(turn_at) as turn_at from webhooks group by tenant) w on w.tenant = due.tenant
    order by w.turn_at nulls first, n.namespace;
end;


-- Messages of webhooks to be sent now, those that wait for that or for their next try, when the oldest of these came, and
-- those that nobody took. Each is counted up to a limit, from an index of its own.
create function webhook_messages(most integer)
returns table (due bigint, waiting bigint, oldest timestamptz, dead bigint)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select
        (select count(*) from (
            select 1 as found from webhook_outbox o
            where o.dead_at is null and o.next_at <= now()
            limit most
        ) counted),
        (select count(*) from (
            select 1 as found from webhook_outbox o
            where o.dead_at is null
            limit most
        ) counted),
        (
            select o.at from webhook_outbox o
            where o.dead_at is null
            order by o.at
            limit 1
        ),
        (select count(*) from (
            select 1 as found from webhook_outbox o
            where o.dead_at is not null
            limit most
        ) counted);
end;

-- Blank the entries about memories, edges and nodes of the tenant that was entered, which have to be gone already: so the
-- workers' role can take words out of the log together with what they are about, and in no other way. `by` is the command
-- that erases them: its own reason stays. The tenant is a value, so that each statement goes to one node of a cluster.
create function blank_audit(erased uuid[], by uuid) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    entered constant integer := nullif(current_setting('app.tenant', true), '')::integer;
    gone uuid[];
    wordy bigint[];
begin
    -- Whoever gives entries their places reads what they say: after this, or before and is seen. Others may blank beside us.
    perform pg_advisory_xact_lock_shared(hashtextextended('engramq.audit_chain', entered));
    select array_agg(given.id) into gone
    from unnest(erased) as given (id)
    where given.id not in (select n.id from nodes n where n.tenant = entered and n.id = any(erased))
        and given.id not in (select e.id from edges e where e.tenant = entered and e.id = any(erased));
    select array_agg(about.id order by about.id) into wordy
    from (
        select a.id from audit_log a where a.tenant = entered and a.target_id = any(gone)
        union
        select a.id from audit_log a
        where a.tenant = entered and a.reason is not null and a.old ? 'source_id'
            and a.old ->> 'source_id' = any(gone::text[])
        union
        select a.id from audit_log a
        where a.tenant = entered and a.reason is not null and a.old ? 'target_id'
            and a.old ->> 'target_id' = any(gone::text[])
        union
        -- The note of an outcome stands in one entry for each of its memories.
        select a.id from audit_log a
        where a.tenant = entered and a.action = 'outcome' and a.command_id in (
            select o.command_id from audit_log o
            where o.tenant = entered and o.target_id = any(gone) and o.action = 'outcome'
        )
    ) about
    join audit_log a on a.tenant = entered and a.id = about.id
    where a.command_id is distinct from by
        and (a.reason is not null or a.old @? '$.properties.*' or a.new @? '$.properties.*'
            or a.old ->> 'project' is not null);
    update audit_log a
    set reason = null, old = without_words(a.old), new = without_words(a.new)
    where a.tenant = entered and a.id = any(wordy);
    update audit_chain c set salt = null where c.tenant = entered and c.entry = any(wordy);
end
$$;

-- Blank so many entries of the tenant that was entered and is being deleted, which has to hold no node any more; how many
-- they were. What is said of the deletion itself stays.
create function blank_audit_of_deleted(most integer) returns bigint
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    entered constant integer := nullif(current_setting('app.tenant', true), '')::integer;
    wordy bigint[];
begin
    -- Whoever gives entries their places reads what they say: after this, or before and is seen.
    perform pg_advisory_xact_lock(hashtextextended('engramq.audit_chain', entered));
    select array_agg(few.id) into wordy
    from (
        select a.id
        from audit_log a
        where a.tenant = entered and a.action <> 'delete_tenant'
            and not exists (select 1 from nodes n where n.tenant = entered)
            and (a.reason is not null or a.old @? '$.properties.*' or a.new @? '$.properties.*'
                or a.old ->> 'project' is not null)
        order by a.id
        limit most
    ) few;
    update audit_log a
    set reason = null, old = without_words(a.old), new = without_words(a.new)
    where a.tenant = entered and a.id = any(wordy);
    update audit_chain c set salt = null where c.tenant = entered and c.entry = any(wordy);
    return coalesce(cardinality(wordy), 0);
end
$$;

-- Let entries that are written from now on have higher numbers than those up to this one that are kept: they may come
-- from another database. Other transactions take numbers meanwhile, so some are left out, lest one is given twice.
create function advance_audit_ids(last bigint) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    numbers constant text := pg_get_serial_sequence('audit_log', 'id');
    kept constant bigint := least(last, audit_ids_kept());
    given bigint;
begin
    execute format('select last_value - (not is_called)::integer from %s', numbers) into given;
    if given < kept then
        perform setval(numbers, kept + 1000);
    end if;
end
$$;

-- Whether the vector index takes a row of a load: its condition asks this whenever such a row comes to the index. Only a
-- load that is open says no, and only to the partition and the model that it was opened for: what is promoted or gets
-- another model's vector goes into the index that it has then.
--
-- Declared immutable, which conditions of indexes have to be, though the answer changes once, from no to yes. What that
-- would break is seen to:
-- * Rows that came before are missing from the index: searches compare them exactly until the index has been built anew,
--   and the load is forgotten only after that. An index with more rows than it needs is no harm.
-- * A writer that still reads "no" while the index is built: a statement takes its snapshot after its lock on memories,
--   and a build waits for all who hold one. So writers have to read what is committed, as `begin` says.
-- * A restore of a backup: rows come before indexes. Where they did not, an unknown load says yes.
create function load_covered(tenant integer, load integer, partition text, model smallint) returns boolean
language sql immutable security definer set search_path = public, pg_temp set plan_cache_mode = 'force_generic_plan'
return not exists (
    select from loads l
    where l.tenant = load_covered.tenant and l.id = load and l.partition = load_covered.partition
        and l.model_id = model and not l.covered
);

-- Make the vector index of a model that has none.
create function make_vector_index(model smallint) returns void
language plpgsql set search_path = public, pg_temp as $$
begin
    execute format(
        'create index if not exists %I on memories using hnsw ((embedding::halfvec(%s)) halfvec_cosine_ops) '
        'with (m = 16, ef_construction = 64) '
        'where model_id = %s and not repeated and (load_id is null or load_covered(tenant, load_id, partition, model_id))',
        'memories_embedding_' || model, (select dimensions from embedding_models where id = model), model);
end
$$;

-- Return the id of an embedding model, making its row and its vector index when it is new or retired. The arguments reach
-- no SQL text but as numbers.
create function register_embedding_model(model_name text, model_sha256 text, model_dimensions integer)
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
    on conflict (name, sha256, dimensions) do nothing;
    update embedding_models set retired_at = null, used_at = now()
    where name = model_name and sha256 = model_sha256 and dimensions = model_dimensions
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
        where e.id = found_id and e.retired_at is null;  -- waits for a retirement under way
        if found then
            return found_id;
        end if;
    end loop;
end
$$;

-- How many vectors there are of each model, whosever they are. Reads all rows: 1 s for a million.
create function vectors_by_model() returns table (model_id smallint, vectors bigint)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select m.model_id, count(*) from memories m where m.model_id is not null group by m.model_id;
end;

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
            if found and not exists (select 1 from memories m where m.model_id = model) then
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

-- Every tenant's loads that are over: nothing has come for so many seconds, or so many rows have, or the index was being
-- built.
create function loads_over(idle_s double precision, most integer)
returns table (id integer, namespace text, partition text, model_id smallint)
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select l.id, n.namespace, l.partition, l.model_id
    from loads l
    join namespaces n on n.tenant = l.tenant
    where l.covered or l.rows >= most or l.loaded_at < now() - make_interval(secs => idle_s)
    order by l.id;
end;

-- Remove what a build that was broken off has left behind: an index that nothing reads and every write pays for. Only
-- for whoever holds the lock of the builds. It waits for who uses the table, and all others behind it, for a moment
-- only: what is still in use is left to the next time.
create function drop_broken_indexes() returns integer
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    broken regclass;
    dropped integer := 0;
begin
    perform set_config('lock_timeout', '100ms', true);
    for broken in
        select i.indexrelid from pg_index i join pg_class c on c.oid = i.indexrelid
        where i.indrelid in ('memories_trusted'::regclass, 'memories_untrusted'::regclass)
            and not i.indisvalid and c.relname ~ '_cc(new|old)[0-9]*$'
    loop
        begin
            execute format('drop index %s', broken);
            dropped := dropped + 1;
        exception when lock_not_available then
            null;
        end;
    end loop;
    return dropped;
end
$$;


-- Rights
-- ======

grant usage on schema public to engramq_worker;
grant select, insert, update, delete on
    nodes, memories, memory_usage, edges, link_tombstones, deferred_links, co_retrievals, proposals, lexeme_counts,
    lexeme_rebuilds, loads, reembedding, ledger, webhook_outbox
    to engramq_worker;
grant select, insert, delete on imported_rows, deleted_graph, webhooks to engramq_worker;
grant select, insert on approvals, audit_log, audit_chain, changes to engramq_worker;
grant select on namespaces, embedding_models, schema_migrations, memories_in_namespace, nodes_in_namespace, memory_totals
    to engramq_worker;
-- Numbers are given by make_tenant alone, and no name is ever taken away; clock and language are the workers' to write.
grant update (
    active_hours, in_use, in_use_since, links_decayed_at_hours, language, visibility, sharing_consent, admins_read
) on namespaces to engramq_worker;
-- The workers may make and revoke tokens, and rename their project, never read a digest: token_owner alone answers whose one is.
grant insert on tokens to engramq_worker;
grant select (id, tenant, principal, scopes, untrusted, label, project, visibility, created_by, created_at, expires_at, revoked_at)
    on tokens to engramq_worker;
grant update (revoked_at, project) on tokens to engramq_worker;
grant update (failures, again_at, turn_at) on webhooks to engramq_worker;
do $$
begin
    for place in 0..31 loop
        execute format('grant select on sequence memories_written, memories_written_%s to engramq_worker', place);
    end loop;
end
$$;
grant update (deleted_at) on deleted_graph to engramq_worker;  -- which locking a row takes; nobody changes one
grant maintain on memories, memories_trusted, memories_untrusted to engramq_worker;  -- building an index anew, analyzing

revoke all on function
    make_words_anew, tenant_of, make_tenant, token_owner, delete_revoked_tokens, every_namespace, changed_namespaces,
    settle_changes, expiring_namespaces, outdated_namespaces, decaying_namespaces, rebuilding_namespaces,
    namespaces_without_pieces, namespaces_to_tell, webhook_messages, blank_audit, blank_audit_of_deleted,
    advance_audit_ids, load_covered, is_repeated, stands_often, make_vector_index, register_embedding_model,
    use_embedding_model, vectors_by_model, retire_embedding_models, loads_over, drop_broken_indexes, note_memories_written,
    note_total, fold_totals, mend_totals, unfolded_namespaces, uncompared_namespaces
    from public;
grant execute on function
    tenant_of, make_tenant, token_owner, delete_revoked_tokens, every_namespace, changed_namespaces,
    settle_changes, expiring_namespaces, outdated_namespaces, decaying_namespaces, rebuilding_namespaces,
    namespaces_without_pieces, namespaces_to_tell, webhook_messages, blank_audit, blank_audit_of_deleted,
    advance_audit_ids, load_covered, is_repeated, stands_often, register_embedding_model, use_embedding_model, vectors_by_model,
    retire_embedding_models, loads_over, drop_broken_indexes, fold_totals, mend_totals, unfolded_namespaces, uncompared_namespaces
    to engramq_worker;
