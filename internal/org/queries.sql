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
