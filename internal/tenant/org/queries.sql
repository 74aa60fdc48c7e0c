-- name: Insert :exec
INSERT INTO org (id, name, plan, environment, contact_email, limits, created_at, updated_at)
VALUES (@id, @name, @plan, @environment, @contact_email, @limits, @now, @now);

-- name: Get :one
SELECT * FROM org WHERE id = @id;

-- name: GetForUpdate :one
SELECT * FROM org WHERE id = @id FOR UPDATE;

-- name: Some :many
SELECT * FROM org WHERE id = ANY (@ids::text[]) ORDER BY id;

-- name: Update :one
UPDATE org
SET name = @name, plan = @plan, contact_email = @contact_email, limits = @limits,
    suspended_at = @suspended_at, suspended_reason = @suspended_reason,
    auth_epoch = auth_epoch + 1, updated_at = @now
WHERE id = @id
RETURNING *;

-- name: AdvanceEpoch :one
UPDATE org SET auth_epoch = auth_epoch + 1 WHERE id = @id RETURNING auth_epoch;

-- name: HoldEpoch :one
SELECT auth_epoch FROM org WHERE id = @id FOR SHARE;

-- name: Search :many
-- tenant: operators look for orgs
SELECT * FROM org
WHERE id > @after AND (@plan::text = '' OR plan = @plan) AND (@environment::text = '' OR environment = @environment)
    AND (@suspended::text = '' OR (suspended_at IS NOT NULL) = (@suspended = 'true'))
    AND (@text::text = '' OR id = @text OR strpos(lower(name), @text) > 0 OR strpos(lower(contact_email), @text) > 0)
ORDER BY id LIMIT @max_rows;

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
