-- name: Reserve :execrows
-- Times are the database's own: nodes need not agree on theirs. A row that has expired is as good as none, and so is one
-- whose run has died, if the operation may be run again.
INSERT INTO idempotency_key (org_id, key, route, request_hash, state, owner, lease_until, created_at, expires_at)
VALUES (@org_id, @key, @route, @request_hash, 'running', @owner, now() + @lease::interval, now(), now() + @kept::interval)
ON CONFLICT (org_id, key, route) DO UPDATE
SET request_hash = excluded.request_hash, state = 'running', owner = excluded.owner, lease_until = excluded.lease_until,
    status = 0, headers = '{}', body = '', created_at = excluded.created_at, expires_at = excluded.expires_at
WHERE idempotency_key.expires_at <= now()
   OR @repeatable::boolean AND idempotency_key.state = 'running' AND idempotency_key.lease_until <= now()
      AND idempotency_key.request_hash = excluded.request_hash;

-- name: Get :one
SELECT request_hash, state, lease_until <= now() AS lapsed, status, headers, body
FROM idempotency_key
WHERE org_id = @org_id AND key = @key AND route = @route AND expires_at > now();

-- name: Known :one
SELECT EXISTS (SELECT FROM idempotency_key WHERE org_id = @org_id AND key = @key AND route = @route AND expires_at > now());

-- name: Finish :execrows
UPDATE idempotency_key SET state = @state, status = @status, headers = @headers, body = @body
WHERE org_id = @org_id AND key = @key AND route = @route AND owner = @owner AND state = 'running';

-- name: Release :execrows
DELETE FROM idempotency_key
WHERE org_id = @org_id AND key = @key AND route = @route AND owner = @owner AND state = 'running';

-- name: Abandon :execrows
UPDATE idempotency_key SET lease_until = now()
WHERE org_id = @org_id AND key = @key AND route = @route AND owner = @owner AND state = 'running';

-- name: Trim :execrows
-- tenant: rows of all orgs expire alike
DELETE FROM idempotency_key
WHERE ctid = ANY (ARRAY(SELECT ctid FROM idempotency_key WHERE expires_at <= now() ORDER BY expires_at LIMIT @max_rows));
