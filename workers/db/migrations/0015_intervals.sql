-- From when until when a knowledge edge holds; null is open. Links have no interval. The constraint looks at new rows alone:
-- those that are there have none, and a large table need not be read to know that.
alter table edges
    add column valid_from timestamptz,
    add column valid_until timestamptz,
    add constraint edges_interval check (valid_until > valid_from) not valid;
