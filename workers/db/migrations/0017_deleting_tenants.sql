-- Deleting a whole tenant takes its proposals too (approvals go with those), and its tokens.
grant delete on proposals to engramq_worker;

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
revoke all on function delete_revoked_tokens() from public;
grant execute on function delete_revoked_tokens() to engramq_worker;
