-- fragment: listed
-- What a list shows of memories_in_namespace m: as the visibility rule has it, but that a state or a verification which is asked for
-- is shown, whatever it hides elsewhere. Where one line follows from another, it names an index to a plan.
m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[])
and {held}
and (%(as_of)s::timestamptz is null or m.created_at <= %(as_of)s or m.valid_from <= %(as_of)s)
and (%(states)s::text[] is distinct from array['pending'] or m.state = 'pending')
and (%(states)s::text[] is distinct from array['archived'] or m.state = 'archived' or m.expires_at is not null)
and case when %(states)s::text[] is null then not {archived} else {state} = any(%(states)s::text[]) end
and case when %(verifications)s::text[] is null then m.verification <> 'rejected'
    when 'unverified' = any(%(verifications)s::text[]) then m.verification = any(%(verifications)s::text[])
    else m.verification <> 'unverified' and m.verification = any(%(verifications)s::text[]) end
and {in_sectors}
and {in_project_asked}
and (%(tags)s::text[] is null or {tagged})
and (%(ids)s::uuid[] is null or m.node_id = any(%(ids)s::uuid[]))
and (%(thread)s::text is null or m.thread = %(thread)s)
and (%(source_type)s::text is null or m.source_type = %(source_type)s)
and (%(created_by)s::text is null or m.created_by = %(created_by)s)
and {in_span}
and (%(evidence)s::text is null or (m.evidence is not null and (%(evidence)s::text = 'cited' or {stale})))
and (%(external_id)s::text is null or m.node_id = any(array(
    select n.id from nodes n where n.tenant = %(tenant)s and n.external_id = %(external_id)s
)))

-- name: tagged_memories
-- The memories that have all of these tags, up to a limit.
select m.node_id as id
from memories_in_namespace m
where m.tenant = %(tenant)s and m.partition = any(%(partitions)s::text[]) and {tagged}
limit %(limit)s

-- name: recent_memories
-- The newest memories, from below a position on; one more than a page shows whether there is another. Sorted, those of a
-- span are looked for by when they happened, not among all that is newer.
with listed as materialized (
    select m.node_id, m.partition, m.created_at
    from memories_in_namespace m
    where {listed}
        and (%(before)s::timestamptz is null
            or (m.created_at, m.node_id) < (%(before)s::timestamptz, %(before_id)s::uuid))
    order by case when %(sorts)s then m.created_at + interval '0' end desc, m.created_at desc, m.node_id desc
    limit %(limit)s
)
select {memory_columns}
from listed l
cross join lateral (
    select m.* from memories m
    where m.tenant = %(tenant)s and m.node_id = l.node_id and m.partition = l.partition offset 0
) m
cross join lateral (select n.external_id from nodes n where n.tenant = %(tenant)s and n.id = l.node_id offset 0) n
left join lateral (
    select u.* from memory_usage u where u.tenant = %(tenant)s and u.node_id = l.node_id offset 0
) u on true
order by l.created_at desc, l.node_id desc

-- name: memories_around_span
-- About how many memories are from the days of a span, and from later ones.
select coalesce(sum(t.memories) filter (where t.day <= coalesce({day_of_until}, 'infinity')), 0)::bigint as within,
    coalesce(sum(t.memories) filter (where t.day > {day_of_until}), 0)::bigint as later
from memory_totals t
where t.tenant = %(tenant)s and t.day >= coalesce((%(since)s::timestamptz at time zone 'UTC')::date, '-infinity')

-- fragment: day_of_until
-- The day, of UTC, in which a span ends; null where it does not end.
(%(until)s::timestamptz at time zone 'UTC')::date

-- name: standing_memories
-- Standing wishes of a project and of none, the newest first.
select {memory_columns}
from {memory_tables}
where {visible} and m.standing and m.standing_source is not null and {in_project}
order by m.created_at desc, m.node_id desc
limit %(limit)s

-- name: memories_shown_often
-- The memories that searches have shown most often, of the few most shown those that hold and that the caller sees.
select m.node_id as id, left(m.content, %(beginning_chars)s) as beginning, u.access_count as shown, u.helped, u.hindered
from (
    select * from memory_usage
    where tenant = %(tenant)s and access_count > 0
    order by access_count desc, node_id desc
    limit %(candidates)s
) u
join memories m on m.tenant = u.tenant and m.node_id = u.node_id
where {visible} and m.state = 'active'
order by u.access_count desc, u.node_id desc
limit %(limit)s

-- fragment: totals
-- The kept totals of the namespace, and what they leave to the time of the count: what has expired since, and what has an
-- end of its own. `is_over`: it holds no longer by that end.
(
    select t.partition, t.sector, t.state, t.is_superseded, false as is_over, t.is_rejected, t.project, t.day, t.memories
    from memory_totals t
    where t.tenant = %(tenant)s
    union all
    select m.partition, {read_sector}, moved.state, {superseded}, false, m.verification = 'rejected', m.project, {day_counted},
        moved.memories
    from memories m
    cross join lateral (values (m.state, -1), ('archived', 1)) as moved (state, memories)
    where m.tenant = %(tenant)s and m.expires_at <= now() and m.state <> 'archived' and m.valid_until is null
    union all
    select m.partition, {read_sector}, {state}, {superseded}, m.valid_until <= now(), m.verification = 'rejected', m.project,
        {day_counted}, 1
    from memories m
    where m.tenant = %(tenant)s and m.valid_until is not null
)

-- fragment: read_sector
-- The sector that a memory m reads as.
case when m.sector_source = 'none' then 'none' else coalesce(m.sector, 'semantic') end

-- fragment: day_counted
-- The day, of UTC, under which a memory m is counted.
(coalesce(m.occurred_at, m.created_at) at time zone 'UTC')::date

-- fragment: state_asked
-- Whether totals m are of a state that a list shows.
case when %(states)s::text[] is null then m.state <> 'archived' else m.state = any(%(states)s::text[]) end

-- fragment: totals_held
-- Whether totals m are of memories that a list shows, whatever their state.
not m.is_rejected and (%(include_superseded)s or not (m.is_superseded or m.is_over))

-- name: facet_counts
-- How many memories a list would show of each project, those with most in the partitions that are asked for, sector, state
-- and partition, if that word stood in the place of the one that was chosen of its kind.
with kind as materialized (
    select m.project, m.sector, m.state, m.partition, sum(m.memories)::bigint as memories,
        {in_project_asked} as of_project, {state_asked} as of_state,
        (%(sectors)s::text[] is null or m.sector = any(%(sectors)s::text[])) as of_sector,
        m.partition = any(%(partitions)s::text[]) as of_partition
    from {totals} m
    where {totals_held}
    group by m.project, m.sector, m.state, m.partition
), counted as (
    select 'project' as facet, project as word, sum(memories)::bigint as memories
    from kind where project is not null and of_partition and of_state and of_sector group by project
    union all
    select 'sector', sector, sum(memories)::bigint from kind where of_partition and of_state and of_project group by sector
    union all
    select 'state', state, sum(memories)::bigint from kind where of_partition and of_project and of_sector group by state
    union all
    select 'partition', partition, sum(memories)::bigint
    from kind where of_project and of_state and of_sector group by partition
)
select facet, word, memories
from (
    select *, row_number() over (partition by facet order by memories desc, word) as place from counted where memories > 0
) placed
where place <= %(most)s
order by facet, place

-- fragment: by_time
-- How many of the days that are chosen lie on each day, in each month or each year, as their span allows.
span as (
    select case
        when max(day) - min(day) < %(days)s then 'day'
        when max(day) < min(day) + make_interval(months => %(months)s) then 'month'
        else 'year'
    end as unit
    from chosen
)
select s.unit, date_trunc(s.unit, c.day)::date as begins, count(*) as memories
from chosen c
cross join span s
group by 1, 2
order by 2

-- name: memories_by_time
-- How many memories of a list, up to a limit, happened, else were stored, at which times.
with chosen as materialized (
    select (coalesce(m.occurred_at, m.created_at) at time zone %(zone)s::text)::date as day
    from memories_in_namespace m
    where {listed}
    limit %(at_most)s
), {by_time}

-- name: newest_by_time
-- The same of the newest, where there are more.
with chosen as materialized (
    select (coalesce(m.occurred_at, m.created_at) at time zone %(zone)s::text)::date as day
    from memories_in_namespace m
    where {listed}
    order by m.created_at desc
    limit %(at_most)s
), {by_time}

-- name: totals_by_time
-- The same by totals, which are of days of UTC. Rows are looked at in those days that are asked for in part, and of memories
-- whose span is another one in the zone: those between the beginnings of a span here and there.
with chosen as materialized (
    select m.day, sum(m.memories) as memories
    from {totals} m
    where m.partition = any(%(partitions)s::text[]) and {totals_held} and {state_asked} and {in_project_asked}
        and (%(sectors)s::text[] is null or m.sector = any(%(sectors)s::text[]))
        and m.day >= coalesce({first_whole_day}, '-infinity') and m.day < coalesce({first_day_after}, 'infinity')
    group by m.day
    having sum(m.memories) <> 0
), in_part as materialized (
    select (between_both.moment at time zone %(zone)s::text)::date as day
    from (values
        (%(since)s::timestamptz, {first_whole_day}::timestamp at time zone 'UTC'),
        (greatest({first_day_after}, {first_whole_day})::timestamp at time zone 'UTC', 'infinity')
    ) as part (here, there)
    cross join lateral (
        select coalesce(m.occurred_at, m.created_at) as moment
        from memories_in_namespace m
        where {listed} and coalesce(m.occurred_at, m.created_at) >= part.here
            and coalesce(m.occurred_at, m.created_at) < part.there
        offset 0
    ) between_both
    where {first_day_after} is not null or part.there <> 'infinity'
), span as (
    select case
        when max(day) - min(day) < %(days)s then 'day'
        when max(day) < min(day) + make_interval(months => %(months)s) then 'month'
        else 'year'
    end as unit
    from (select day from chosen union all select day from in_part) counted
), spans as materialized (
    select s.unit, date_trunc(s.unit, c.day::timestamp) as begins, sum(c.memories) as memories
    from chosen c
    cross join span s
    group by 1, 2
), beginnings as materialized (
    select unit, begins at time zone 'UTC' as here, begins at time zone %(zone)s::text as there from spans
    union
    select unit, after at time zone 'UTC', after at time zone %(zone)s::text
    from (select unit, begins + ('1 ' || unit)::interval as after from spans) following
), moved as (
    select date_trunc(b.unit, between_both.moment at time zone 'UTC') as leaves,
        date_trunc(b.unit, between_both.moment at time zone %(zone)s::text) as enters
    from beginnings b
    cross join lateral (
        select coalesce(m.occurred_at, m.created_at) as moment
        from memories_in_namespace m
        where {listed}
            and coalesce(m.occurred_at, m.created_at)
                >= greatest(least(b.here, b.there), {first_whole_day}::timestamp at time zone 'UTC')
            and coalesce(m.occurred_at, m.created_at)
                < least(greatest(b.here, b.there), {first_day_after}::timestamp at time zone 'UTC')
        offset 0
    ) between_both
    where b.here <> b.there
)
select (select unit from span) as unit, begins::date as begins, sum(memories)::bigint as memories
from (
    select begins, memories from spans
    union all
    select leaves, -1 from moved
    union all
    select enters, 1 from moved
    union all
    select date_trunc(s.unit, p.day::timestamp), 1 from in_part p cross join span s
) counted
group by begins
having sum(memories) <> 0
order by 2

-- fragment: first_whole_day
-- The first day, of UTC, that is asked for from its beginning on; null where all before is, too.
(%(since)s::timestamptz at time zone 'UTC' + interval '1 day' - interval '1 microsecond')::date

-- fragment: first_day_after
-- The first day, of UTC, that is not asked for to its end; null where all after is, too.
(%(until)s::timestamptz at time zone 'UTC' + interval '1 microsecond')::date

-- name: memory_counts
-- How many memories a namespace holds, by everything that stats tell apart. Then, with a place, how many of both partitions
-- that a list would show each project has that has any in these, those with most in these first; null: those of none.
with kind as materialized (
    select m.partition, m.sector, m.state, m.is_superseded as superseded, m.project, sum(m.memories)::bigint as memories,
        m.state <> 'archived' and not (m.is_superseded or m.is_over or m.is_rejected) as is_shown
    from {totals} m
    group by 1, 2, 3, 4, 5, 7
), named as (
    select project, sum(memories)::bigint as memories,
        coalesce(sum(memories) filter (where partition = 'untrusted'), 0)::bigint as untrusted_count,
        sum(memories) filter (where partition = any(%(partitions)s)) as shown
    from kind
    where is_shown
    group by project
), placed as (
    select project, memories, untrusted_count, count(*) over () as projects,
        row_number() over (order by shown desc, project nulls first) as place
    from named
    where shown > 0
)
select partition, sector, state, superseded, null as project, sum(memories)::bigint as memories,
    null::bigint as untrusted_count, null::bigint as projects, null::bigint as place
from kind
group by 1, 2, 3, 4
union all
select null, null, null, null, project, memories, untrusted_count, projects, place from placed where place <= %(most)s
order by place nulls first

-- name: vectors_in_namespace
-- How many memories of a namespace have a vector, and how many of these one of this model.
select count(*) as total, count(*) filter (where e.name = %(name)s and e.sha256 = %(sha256)s) as done
from memories m
join embedding_models e on e.id = m.model_id
where m.tenant = %(tenant)s

-- name: edge_counts
-- How many edges of each kind a namespace holds, the commonest kinds; what is left over is counted together. What
-- somebody called a link of an untrusted memory is untrusted text, which nobody here has asked for; only links with names
-- of their own are looked at for that.
with kind as (
    select e.layer, e.origin,
        case when e.layer = 'association' and e.relation <> all(%(relations)s) and exists (
            select from nodes n
            where n.tenant = %(tenant)s and n.id in (e.source_id, e.target_id) and n.partition = 'untrusted'
        ) then %(custom)s else e.relation end as relation,
        count(*) as edges
    from edges e
    where e.tenant = %(tenant)s
    group by 1, 2, 3
), placed as (
    select *, row_number() over (order by edges desc, layer, origin, relation) as place from kind
)
select layer, origin, case when place <= %(kinds)s then relation else %(custom)s end as relation,
    sum(edges)::bigint as edges
from placed
group by 1, 2, 3
order by 1, 2, 3

-- name: unfolded_namespaces
-- Namespaces whose totals have notes beside them.
select unfolded_namespaces() as namespace

-- name: uncompared_namespaces
-- Namespaces whose totals were written since they were compared with the memories.
select uncompared_namespaces() as namespace

-- name: fold_totals
-- Add the notes to the totals; how many there were.
select fold_totals(%(waits)s) as rows

-- name: mend_totals
-- Compare totals and memories, and note what is missing; by how many memories they were wrong.
select mend_totals() as wrong
