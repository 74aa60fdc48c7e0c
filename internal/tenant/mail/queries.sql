-- name: TakeSubject :execrows
-- Nothing if a mail of the subject was added within the last hour.
INSERT INTO mail_subject (org_id, subject, at) VALUES (@org_id, @subject, @now)
ON CONFLICT (org_id, subject) DO UPDATE SET at = excluded.at
WHERE mail_subject.at <= excluded.at - interval '1 hour';

-- name: CountSince :one
SELECT count(*) FROM mail WHERE org_id = @org_id AND created_at > @since;

-- name: Add :exec
INSERT INTO mail (org_id, id, kind, state, sealed, created_at, expires_at)
VALUES (@org_id, @id, @kind, 'queued', @sealed, @now, @expires_at);

-- name: Take :one
-- Nothing if another worker is sending it, or if it is over.
UPDATE mail SET taken_until = @until
WHERE org_id = @org_id AND id = @id AND state = 'queued' AND (taken_until IS NULL OR taken_until <= @now)
RETURNING kind, sealed, created_at, expires_at;

-- name: Release :exec
UPDATE mail SET taken_until = NULL WHERE org_id = @org_id AND id = @id AND state = 'queued';

-- name: Finish :execrows
UPDATE mail SET state = @state, reason = @reason, sealed = NULL, taken_until = NULL
WHERE org_id = @org_id AND id = @id AND state = 'queued';

-- name: State :one
SELECT state, reason FROM mail WHERE org_id = @org_id AND id = @id;

-- name: Trim :execrows
-- tenant: rows of all orgs expire alike
DELETE FROM mail WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM mail AS old WHERE old.created_at <= @before ORDER BY old.created_at LIMIT @max_rows));

-- name: TrimSubjects :execrows
-- tenant: rows of all orgs expire alike
DELETE FROM mail_subject
WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM mail_subject AS old WHERE old.at <= @before ORDER BY old.at LIMIT @max_rows));
