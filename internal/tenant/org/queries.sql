-- name: Insert :exec
INSERT INTO org (id, name, plan, environment, contact_email, limits, created_at, updated_at)
VALUES (@id, @name, @plan, @environment, @contact_email, @limits, @now, @now);

-- name: Get :one
-- A row with a receipt is a tombstone, here and below.
SELECT * FROM org WHERE id = @id AND receipt IS NULL;

-- name: GetForUpdate :one
SELECT * FROM org WHERE id = @id AND receipt IS NULL FOR UPDATE;

-- name: Some :many
SELECT * FROM org WHERE id = ANY (@ids::text[]) AND receipt IS NULL ORDER BY id;

-- name: Update :one
UPDATE org
SET name = @name, plan = @plan, contact_email = @contact_email, limits = @limits,
    suspended_at = @suspended_at, suspended_reason = @suspended_reason,
    deletion_requested_at = @deletion_requested_at, purge_at = @purge_at, deletion_suspends = @deletion_suspends,
    purge_started_at = @purge_started_at,
    auth_epoch = auth_epoch + 1, updated_at = @now
WHERE id = @id
RETURNING *;

-- name: Due :many
-- tenant: the orgs whose grace period has ended
SELECT id FROM org WHERE purge_at <= @now AND id > @after ORDER BY id LIMIT @max_rows;

-- name: Buried :many
-- tenant: the orgs that were destroyed lately
SELECT id FROM org WHERE receipt IS NOT NULL AND updated_at > @since AND id > @after ORDER BY id LIMIT @max_rows;

-- name: Bury :execrows
-- Plan and environment cannot be empty.
UPDATE org
SET name = '', plan = 'sandbox', environment = 'sandbox', contact_email = '', limits = '{}', suspended_at = NULL, suspended_reason = '',
    deletion_requested_at = NULL, purge_at = NULL, deletion_suspends = false, purge_started_at = NULL, receipt = @receipt,
    auth_epoch = auth_epoch + 1, created_at = @now, updated_at = @now
WHERE id = @id AND purge_started_at IS NOT NULL;

-- name: Receipt :one
SELECT receipt FROM org WHERE id = @id AND receipt IS NOT NULL;

-- name: AdvanceEpoch :one
UPDATE org SET auth_epoch = auth_epoch + 1 WHERE id = @id AND receipt IS NULL RETURNING auth_epoch;

-- name: HoldEpoch :one
SELECT auth_epoch FROM org WHERE id = @id AND receipt IS NULL FOR SHARE;

-- name: AnyLive :one
-- tenant: a node asks it once, when it starts
SELECT EXISTS (SELECT 1 FROM org WHERE environment = 'live') AS live;

-- name: Search :many
-- tenant: operators look for orgs
SELECT * FROM org
WHERE id > @after AND receipt IS NULL AND (@plan::text = '' OR plan = @plan) AND (@environment::text = '' OR environment = @environment)
    AND (@suspended::text = '' OR (suspended_at IS NOT NULL) = (@suspended = 'true'))
    AND (@text::text = '' OR id = @text OR strpos(lower(name), @text) > 0 OR strpos(lower(contact_email), @text) > 0)
ORDER BY id LIMIT @max_rows;

-- name: CountUnlisted :many
-- tenant: operators learn of plans that are not offered any more
SELECT plan, count(*) AS orgs FROM org WHERE receipt IS NULL AND plan <> ALL (@known::text[]) GROUP BY plan;

-- name: AnnounceReader :exec
-- tenant: processes, not data
INSERT INTO org_suspension_reader (process, trusted_until, obeyed_at)
VALUES (@process, clock_timestamp() + @trusted::interval, '-infinity')
ON CONFLICT (process) DO UPDATE SET trusted_until = excluded.trusted_until;

-- name: Suspended :many
-- tenant: every process knows all suspended orgs
SELECT id FROM org WHERE suspended_at IS NOT NULL;

-- name: StatementTime :one
-- tenant: a clock
SELECT clock_timestamp()::timestamptz AS at;

-- name: ConfirmReader :exec
-- tenant: processes, not data
UPDATE org_suspension_reader SET obeyed_at = @obeyed_at WHERE process = @process;

-- name: RemoveReader :exec
-- tenant: processes, not data
DELETE FROM org_suspension_reader WHERE process = @process OR trusted_until < clock_timestamp() - interval '1 hour';

-- name: AllObey :one
-- tenant: processes, not data
SELECT NOT EXISTS (
    SELECT 1 FROM org_suspension_reader WHERE trusted_until > clock_timestamp() AND obeyed_at <= @since
) AS obeyed;
