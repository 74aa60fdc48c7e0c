-- name: OpenLedgers :exec
INSERT INTO ledger (org_id) SELECT unnest(@org_ids::text[]) ON CONFLICT DO NOTHING;

-- name: NextIncarnation :one
-- What is rebuilt from the database owes nothing and is beyond doubt.
INSERT INTO ledger (org_id, incarnation) VALUES (@org_id, 1)
ON CONFLICT (org_id) DO UPDATE SET incarnation = ledger.incarnation + 1, owed = 0, doubted = false
RETURNING incarnation;

-- name: MonthUsed :one
SELECT coalesce((SELECT used FROM month_total WHERE org_id = @org_id AND month = @month), 0)::bigint;

-- name: HoldLedgers :many
-- tenant: one flush settles the counts of many orgs
SELECT org_id, incarnation, lifted, lifted_month, greatest(lifted_at, 'epoch')::timestamptz AS lifted_at, owed, doubted
FROM ledger WHERE org_id = ANY (@org_ids::text[]) ORDER BY org_id FOR UPDATE;

-- name: Owe :exec
-- tenant: one flush settles the counts of many orgs
UPDATE ledger SET
    owed = CASE WHEN owed_month = o.month THEN owed + o.calls WHEN owed_month < o.month THEN o.calls ELSE owed END,
    owed_month = greatest(owed_month, o.month)
FROM (
    -- An org has one row per month. Only the newest month can still be owed.
    SELECT DISTINCT ON (tenant) tenant, month, calls
    FROM (SELECT unnest(@orgs::text[]) AS tenant, unnest(@months::integer[]) AS month, unnest(@calls::bigint[]) AS calls) batch
    ORDER BY tenant, month DESC
) o
WHERE ledger.org_id = o.tenant;

-- name: Doubt :exec
-- tenant: one flush settles the counts of many orgs
UPDATE ledger SET doubted = true WHERE org_id = ANY (@org_ids::text[]);

-- name: RaiseIncarnation :exec
-- In doubt until they are really rebuilt: which calls the counters lack cannot be told by this number.
UPDATE ledger SET incarnation = greatest(incarnation, @incarnation), doubted = true WHERE org_id = @org_id;

-- name: LockLedger :one
SELECT incarnation, greatest(lifted_at, 'epoch')::timestamptz AS lifted_at, owed, owed_month, doubted
FROM ledger WHERE org_id = @org_id FOR UPDATE;

-- name: SetLifted :exec
UPDATE ledger SET incarnation = @incarnation, lifted = @lifted, lifted_month = @month, lifted_at = @now WHERE org_id = @org_id;

-- name: Paid :exec
UPDATE ledger SET owed = 0 WHERE org_id = @org_id;

-- name: SetMonth :exec
INSERT INTO month_total (org_id, month, used) VALUES (@org_id, @month, @used)
ON CONFLICT (org_id, month) DO UPDATE SET used = excluded.used;

-- name: AddToMonths :exec
INSERT INTO month_total (org_id, month, used)
SELECT unnest(@org_ids::text[]), unnest(@months::integer[]), unnest(@counts::bigint[])
ON CONFLICT (org_id, month) DO UPDATE SET used = month_total.used + excluded.used;

-- name: TakeBatch :execrows
INSERT INTO month_flush (process, batch, at) VALUES (@process, @batch, @now)
ON CONFLICT (process) DO UPDATE SET batch = excluded.batch, at = excluded.at
WHERE month_flush.batch < excluded.batch;

-- name: ForgetFlushes :exec
DELETE FROM month_flush WHERE at < @before;

-- name: LockConnect :one
INSERT INTO connect_bucket (org_id, level, at) VALUES (@org_id, 0, @now)
ON CONFLICT (org_id) DO UPDATE SET org_id = excluded.org_id
RETURNING level, at;

-- name: SetConnect :exec
UPDATE connect_bucket SET level = @level, at = @now WHERE org_id = @org_id;

-- name: GetConnect :one
SELECT level, at FROM connect_bucket WHERE org_id = @org_id;

-- name: Months :many
-- tenant: every org is told when its month is nearly used up
SELECT org_id, used, told FROM month_total WHERE month = @month AND told < 100 AND used > 0 AND org_id > @after ORDER BY org_id LIMIT @max_rows;

-- name: Told :execrows
UPDATE month_total SET told = @percent WHERE org_id = @org_id AND month = @month AND told < @percent;
