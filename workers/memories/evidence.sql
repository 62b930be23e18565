-- name: keep_found
-- Keep what a comparison has found of a memory's evidence. What is said of the memory is as it was: so is its time.
update memories set evidence = %(evidence)s
where tenant = %(tenant)s and node_id = %(id)s
returning node_id
