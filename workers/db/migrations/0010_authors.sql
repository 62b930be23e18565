-- Who wrote a named node or an edge first, and who changed it last: a principal's name, engramq's own for what is linked
-- by itself. Null for rows of before. Memories say so in their own table.
alter table nodes add column created_by text, add column updated_by text;
alter table edges add column created_by text, add column updated_by text;
