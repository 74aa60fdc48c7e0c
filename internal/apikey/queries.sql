-- name: Insert :exec
INSERT INTO api_key (org_id, id, hash, hint, label, scopes, methods, account_ids, created_at, expires_at)
VALUES (@org_id, @id, @hash, @hint, @label, @scopes, @methods, @account_ids, @created_at, @expires_at);

-- name: ByHash :one
-- tenant: the hash of the secret is the proof of which org calls
SELECT * FROM api_key WHERE hash = @hash;

-- name: ByID :one
SELECT * FROM api_key WHERE org_id = @org_id AND id = @id;

-- name: List :many
SELECT * FROM api_key WHERE org_id = @org_id ORDER BY id;

-- name: CountLive :one
SELECT count(*) FROM api_key
WHERE org_id = @org_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > @now);

-- name: Revoke :one
UPDATE api_key SET revoked_at = @now
WHERE org_id = @org_id AND id = @id AND revoked_at IS NULL
RETURNING label;

-- name: Exists :one
SELECT EXISTS (SELECT 1 FROM api_key WHERE org_id = @org_id AND id = @id);
