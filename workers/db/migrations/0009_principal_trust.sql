-- The trust of a principal is a part of who it is: one name, trusted and untrusted, is two principals, who share no
-- idempotency keys and no commands.

-- Rows that are there say nothing of trust. They count as an untrusted principal's where all tokens of that name are, and
-- else as a trusted one's: so whoever repeats a request meets its own row, but for names that had both, or came by JWT
-- with the untrusted claim. Rows are kept for seven days. The default is for workers of the version before, which may run
-- on for a while and write none.
alter table ledger add column principal_untrusted boolean not null default false;
update ledger l set principal_untrusted = true
from (select tenant, principal from tokens group by 1, 2 having bool_and(untrusted)) t
where l.tenant = t.tenant and l.principal = t.principal;

drop index ledger_idempotency;
create unique index ledger_idempotency on ledger (tenant, principal, principal_untrusted, idempotency_key)
    where idempotency_key is not null;
