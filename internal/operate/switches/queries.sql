-- name: All :many
SELECT * FROM control ORDER BY kind, name;

-- name: Serialize :exec
SELECT pg_advisory_xact_lock(7264026);

-- name: Put :exec
INSERT INTO control (kind, name, value, reason, changed_by, changed_at) VALUES (@kind, @name, @value, @reason, @changed_by, @changed_at)
ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value, reason = excluded.reason, changed_by = excluded.changed_by, changed_at = excluded.changed_at;

-- name: Remove :exec
DELETE FROM control WHERE kind = @kind AND name = @name;
