-- name: AddSession :one
INSERT INTO operator_session (id, hash, issuer, subject, email, name, group_names, token, user_agent, ends_at)
VALUES (@id, @hash, @issuer, @subject, @email, @name, @group_names, @token, @user_agent, now() + @lifetime::interval) RETURNING *;

-- name: FindSession :one
SELECT sqlc.embed(s), (s.last_seen_at < now() - interval '1 minute')::bool AS stale FROM operator_session s
WHERE s.hash = @hash AND s.ended_at IS NULL AND s.ends_at > now() AND s.last_seen_at > now() - @idle::interval;

-- name: Seen :exec
UPDATE operator_session SET last_seen_at = now() WHERE id = @id;

-- name: Sessions :many
SELECT * FROM operator_session
WHERE ended_at IS NULL AND ends_at > now() AND last_seen_at > now() - @idle::interval ORDER BY created_at DESC, id DESC LIMIT 200;

-- name: EndSession :one
UPDATE operator_session SET ended_at = now() WHERE id = @id AND ended_at IS NULL RETURNING *;

-- name: TrimSessions :exec
DELETE FROM operator_session WHERE ends_at < now() - interval '30 days';
