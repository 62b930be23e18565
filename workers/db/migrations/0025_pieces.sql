-- Vectors of the pieces of long memories. A model reads the beginning of a text; what a long memory says later was found
-- by its words alone.

-- Of the content in order, by the model of `embedding`: whoever changes either takes them away. Null: not made yet; none:
-- the model reads the content whole. They lie outside of the row, so that those who do not ask for them do not read them.
alter table memories add column pieces halfvec[];
alter table memories alter column pieces set storage external;

-- Long memories that lack their pieces. Bytes, since they are known without unpacking a content, and tell better than
-- characters how much of a text a model reads.
create index memories_without_pieces on memories (tenant, node_id)
    where pieces is null and state = 'active' and octet_length(content) > 1000;

-- Namespaces with such memories. Concerns every tenant, so it runs as the owner.
create function namespaces_without_pieces() returns setof text
language sql stable security definer set search_path = public, pg_temp
begin atomic
    select n.namespace
    from namespaces n
    where exists (
        select from memories m
        where m.tenant = n.tenant and m.pieces is null and m.state = 'active' and octet_length(m.content) > 1000
    )
    order by 1;
end;
revoke all on function namespaces_without_pieces() from public;
grant execute on function namespaces_without_pieces() to engramq_worker;
