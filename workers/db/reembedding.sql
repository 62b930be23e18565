-- name: end_other_reembeddings
-- End the changes to other models. By itself: Citus leaves out a part of a WITH that changes a table which is whole on every
-- node, where nothing reads the part.
delete from reembedding where model_id <> %(model_id)s returning model_id

-- name: begin_reembedding
-- Say that vectors of other models become those of this one, by this process; the same change goes on. It began when the
-- model was chosen. No row while another process is at it, which has told so of late.
insert into reembedding (model_id, total, remaining, worker, began_at)
select
    %(model_id)s, %(remaining)s, %(remaining)s, %(worker)s, (select chosen_at from embedding_models where id = %(model_id)s)
on conflict (model_id) do update set
    total = greatest(reembedding.total, excluded.remaining), remaining = excluded.remaining, problem = null,
    worker = excluded.worker, told_at = excluded.told_at
where reembedding.worker is null or reembedding.worker = excluded.worker
    or excluded.told_at - reembedding.told_at > make_interval(secs => %(silent_s)s)
returning began_at

-- name: reembedding_elsewhere
-- Whether another process is at it, which has told so of late.
select 1 as taken from reembedding
where worker <> %(worker)s and told_at >= now() - make_interval(secs => %(silent_s)s)

-- name: tell_reembedding
-- Say how far the change is; no row when another process, or another change, has taken over.
update reembedding set
    remaining = %(remaining)s, per_s = coalesce(%(per_s)s, per_s), problem = %(problem)s,
    worker = case when not %(ended)s then worker end, told_at = now()
where model_id = %(model_id)s and worker = %(worker)s
returning model_id

-- name: end_reembedding
-- Say that no change is under way.
delete from reembedding
returning model_id

-- name: reembedding_progress
-- The change that is under way.
select e.name, e.dimensions, r.total, r.remaining, r.per_s, r.problem, r.began_at,
    extract(epoch from now() - r.told_at)::float8 as silent_s
from reembedding r
join embedding_models e on e.id = r.model_id
