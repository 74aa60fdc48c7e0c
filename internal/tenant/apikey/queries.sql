-- name: Insert :exec
INSERT INTO api_key (org_id, id, hash, hint, label, scopes, methods, account_ids, created_at, expires_at)
VALUES (@org_id, @id, @hash, @hint, @label, @scopes, @methods, @account_ids, @created_at, @expires_at);

-- name: ByHash :one
-- tenant: the hash of the secret is the proof of which org calls
SELECT * FROM api_key WHERE hash = @hash;

-- name: ByID :one
SELECT * FROM api_key WHERE org_id = @org_id AND id = @id;

-- name: List :many
SELECT * FROM api_key WHERE org_id = @org_id AND kind = 'secret' ORDER BY id;

-- name: CountLive :one
SELECT count(*) FROM api_key
WHERE org_id = @org_id AND kind = 'secret' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > @now);

-- name: Revoke :one
UPDATE api_key SET revoked_at = @now
WHERE org_id = @org_id AND id = @id AND kind = 'secret' AND revoked_at IS NULL
RETURNING label;

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
