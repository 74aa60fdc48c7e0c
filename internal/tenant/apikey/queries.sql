-- name: Insert :exec
INSERT INTO api_key (org_id, id, hash, hint, label, scopes, methods, account_ids, allowed_ips, created_at, expires_at, minted_by)
VALUES (@org_id, @id, @hash, @hint, @label, @scopes, @methods, @account_ids, @allowed_ips, @created_at, @expires_at, @minted_by);

-- name: ByHash :one
-- tenant: the hash of the secret is the proof of which org calls
SELECT * FROM api_key WHERE hash = @hash;

-- name: ByID :one
SELECT * FROM api_key WHERE org_id = @org_id AND id = @id;

-- name: List :many
SELECT * FROM api_key WHERE org_id = @org_id AND kind = 'secret' ORDER BY id;

-- name: CountLive :one
-- Keys that were replaced are counted apart.
SELECT count(*) FILTER (WHERE replaced_by = '') AS current, count(*) FILTER (WHERE replaced_by <> '') AS replaced FROM api_key
WHERE org_id = @org_id AND kind = 'secret' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > @now);

-- name: Lock :one
SELECT * FROM api_key WHERE org_id = @org_id AND id = @id AND kind = 'secret' FOR UPDATE;

-- name: Update :exec
UPDATE api_key SET label = @label, scopes = @scopes, methods = @methods, account_ids = @account_ids, allowed_ips = @allowed_ips, expires_at = @expires_at
WHERE org_id = @org_id AND id = @id AND kind = 'secret';

-- name: Replace :one
-- The overlap begins at the database's time, and does not prolong the key.
UPDATE api_key SET replaced_by = @replaced_by, expires_at = least(expires_at, statement_timestamp() + make_interval(secs => @overlap_sec::int))
WHERE org_id = @org_id AND id = @id AND kind = 'secret'
RETURNING expires_at;

-- name: Revoke :one
UPDATE api_key SET revoked_at = @now
WHERE org_id = @org_id AND id = @id AND kind = 'secret' AND revoked_at IS NULL
RETURNING label;

-- name: Minted :many
SELECT * FROM api_key
WHERE org_id = @org_id AND minted_by = @minted_by AND kind = 'secret' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > @now)
ORDER BY id;

-- name: Exists :one
SELECT EXISTS (SELECT 1 FROM api_key WHERE org_id = @org_id AND id = @id AND kind = 'secret');

-- name: Used :exec
-- Whoever has the row locked is not waited for: this is worth no call's time.
UPDATE api_key AS u SET last_used_at = @now
WHERE u.org_id = @org_id AND u.id = (
    SELECT k.id FROM api_key k WHERE k.org_id = @org_id AND k.id = @id AND (k.last_used_at IS NULL OR k.last_used_at < @before) FOR UPDATE SKIP LOCKED
);

-- name: RenewSession :execrows
UPDATE api_key SET label = @label, scopes = @scopes, expires_at = @expires_at, revoked_at = NULL
WHERE org_id = @org_id AND hash = @hash AND kind = 'session';

-- name: AddSession :execrows
INSERT INTO api_key (org_id, id, hash, hint, label, scopes, created_at, expires_at, kind, session_id, person_id)
VALUES (@org_id, @id, @hash, '', @label, @scopes, @created_at, @expires_at, 'session', @session_id, @person_id)
ON CONFLICT (hash) DO NOTHING;

-- name: ScopesOfPerson :exec
UPDATE api_key SET scopes = @scopes
WHERE org_id = @org_id AND person_id = @person_id AND kind = 'session' AND revoked_at IS NULL;

-- name: RevokeOfPerson :exec
UPDATE api_key SET revoked_at = @now
WHERE org_id = @org_id AND person_id = @person_id AND kind = 'session' AND revoked_at IS NULL;

-- name: OrgsOfSession :many
-- tenant: a browser is a person's, who may belong to several orgs
SELECT org_id FROM api_key WHERE session_id = @session_id AND kind = 'session' AND revoked_at IS NULL ORDER BY org_id;

-- name: RevokeSession :exec
-- tenant: a browser is a person's, who may belong to several orgs
UPDATE api_key SET revoked_at = @now WHERE session_id = @session_id AND kind = 'session' AND revoked_at IS NULL;

-- name: ExtendSession :exec
-- tenant: a browser is a person's, who may belong to several orgs
UPDATE api_key SET expires_at = @expires_at WHERE session_id = @session_id AND kind = 'session' AND revoked_at IS NULL;

-- name: SessionsIn :many
SELECT session_id FROM api_key
WHERE org_id = @org_id AND kind = 'session' AND revoked_at IS NULL AND expires_at > @now
ORDER BY session_id;

-- name: TrimSessions :exec
-- tenant: whoever they belonged to, they are over
DELETE FROM api_key WHERE kind = 'session' AND expires_at < @before;

-- name: Expiring :many
-- tenant: the organisations of keys that expire are notified alike
SELECT org_id, id, label, expires_at FROM api_key
WHERE (org_id, id) > (@after_org::text, @after_id::text) AND kind = 'secret' AND revoked_at IS NULL AND replaced_by = '' AND expires_at > @now
    AND (expires_at <= @in_week AND expires_at - created_at >= @two_weeks::interval OR expires_at <= @in_day AND expires_at - created_at >= @two_days::interval)
ORDER BY org_id, id LIMIT @max_rows;
