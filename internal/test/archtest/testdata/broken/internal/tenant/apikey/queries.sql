-- name: Sweep :exec
DELETE FROM api_key;

-- name: Peek :many
SELECT * FROM org;

-- name: Fine :exec
-- tenant: keys of all organisations expire
DELETE FROM api_key;
