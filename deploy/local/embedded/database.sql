-- name: rename_database
-- The database of a new home is the empty one that initdb made: a copy of it would take .1 s and 8 MB.
ALTER DATABASE postgres RENAME TO engramq;

-- name: create_database
-- Where somebody has dropped it.
CREATE DATABASE engramq;
