-- name: Insert :exec
INSERT INTO org (id, name, plan, environment, contact_email, limits, created_at, updated_at)
VALUES (@id, @name, @plan, @environment, @contact_email, @limits, @now, @now);

-- name: Get :one
SELECT * FROM org WHERE id = @id;

-- name: GetForUpdate :one
SELECT * FROM org WHERE id = @id FOR UPDATE;

-- name: List :many
-- tenant: operators list every org
SELECT * FROM org WHERE id > @after ORDER BY id LIMIT @max_rows;

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
