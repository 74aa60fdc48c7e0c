-- name: Beat :exec
INSERT INTO node (id, name, roles, version, started_at, seen_at, healthy, format) VALUES (@id, @name, @roles, @version, @now, @now, @healthy, @format)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, healthy = excluded.healthy;

-- name: Live :many
SELECT * FROM node WHERE seen_at > @since ORDER BY name, id;

-- name: LastDeath :one
-- A node that stops takes its row away; one that dies leaves it.
SELECT coalesce(max(seen_at), 'epoch')::timestamptz FROM node WHERE seen_at <= @since;

-- name: Dead :many
SELECT * FROM node WHERE seen_at <= @since ORDER BY seen_at;

-- name: Leave :exec
DELETE FROM node WHERE id = @id;

-- name: Forget :exec
DELETE FROM node WHERE seen_at < @before;
