-- name: OpenLedgers :exec
INSERT INTO ledger (org_id) SELECT unnest(@org_ids::text[]) ON CONFLICT DO NOTHING;

-- name: NextIncarnation :one
INSERT INTO ledger (org_id, incarnation) VALUES (@org_id, 1)
ON CONFLICT (org_id) DO UPDATE SET incarnation = ledger.incarnation + 1
RETURNING incarnation;

-- name: MonthUsed :one
SELECT coalesce((SELECT used FROM month_total WHERE org_id = @org_id AND month = @month), 0)::bigint;

-- name: HoldIncarnations :many
-- tenant: one flush settles the counts of many orgs
SELECT org_id, incarnation, lifted, greatest(lifted_at, 'epoch')::timestamptz AS lifted_at
FROM ledger WHERE org_id = ANY (@org_ids::text[]) ORDER BY org_id FOR SHARE;

-- name: RaiseIncarnation :exec
UPDATE ledger SET incarnation = greatest(incarnation, @incarnation) WHERE org_id = @org_id;

-- name: LockLedger :one
SELECT incarnation, greatest(lifted_at, 'epoch')::timestamptz AS lifted_at FROM ledger WHERE org_id = @org_id FOR UPDATE;

-- name: SetLifted :exec
UPDATE ledger SET incarnation = @incarnation, lifted = @lifted, lifted_at = @now WHERE org_id = @org_id;

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
