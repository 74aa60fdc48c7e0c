-- name: Sweep :exec
DELETE FROM api_key;

-- name: Peek :many
SELECT * FROM org;

-- name: Fine :exec
-- tenant: everybody is swept
DELETE FROM api_key;
