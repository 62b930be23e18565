-- What is read of the SQLite databases that OpenCode and Cursor keep. What has more bytes than :longest is null.

-- name: opencode_sessions
select id, time_created from session;

-- name: opencode_head
select directory, parent_id is not null from session where id = :session;

-- name: opencode_parts
select m.id, m.data, case when length(p.data) <= :longest then p.data end
from message m
join part p on p.message_id = m.id
where m.session_id = :session and (instr(p.data, '"text"') > 0 or length(p.data) > :longest)
order by m.time_created, m.id, p.id;

-- name: cursor_composers
select key from cursorDiskKV where key >= 'composerData:' and key < 'composerData;';

-- name: cursor_value
select case when length(value) <= :longest then value end from cursorDiskKV where key = :key;

-- name: cursor_bubbles
select key from cursorDiskKV where key >= 'bubbleId:' || :composer || ':' and key < 'bubbleId:' || :composer || ';';

-- name: cursor_workspace
select value from ItemTable where key = 'composer.composerData' and length(value) <= :longest;
