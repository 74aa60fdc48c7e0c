-- name: FindLanes :many
-- tenant: operators see how the lanes of all orgs stand
SELECT l.org_id, l.account_id, l.state, l.cursor, l.fail_since, l.fail_count, l.next_at, l.last_status, l.last_error, l.reason, w.url
FROM webhook_lane l JOIN webhook w ON w.org_id = l.org_id AND w.account_id = l.account_id AND w.deleted_at IS NULL
WHERE (l.org_id, l.account_id) > (@after_org::text, @after_account::text)
    AND l.state = ANY (@states::text[]) AND (@reason::text = '' OR l.reason = @reason) AND (@only_org::text = '' OR l.org_id = @only_org)
    AND (sqlc.narg(among)::text[] IS NULL OR l.account_id = ANY (sqlc.narg(among)))
ORDER BY l.org_id, l.account_id LIMIT @max_rows;

-- name: CountLanes :many
-- tenant: operators see how the lanes of all orgs stand
SELECT state, count(*) AS lanes FROM webhook_lane WHERE @only_org::text = '' OR org_id = @only_org GROUP BY state;

-- name: CountWebhooks :one
-- tenant: operators see how the lanes of all orgs stand
SELECT count(*) FROM webhook WHERE deleted_at IS NULL AND (@only_org::text = '' OR org_id = @only_org);

-- name: Serialize :exec
-- tenant: it locks a name, the one that package webhook locks
SELECT pg_advisory_xact_lock(7264019, hashtext(@account_id::text));

-- name: Hold :one
-- Locks the webhook if its lane is still as it was found.
SELECT w.account_id FROM webhook w
WHERE w.org_id = @org_id AND w.account_id = @account_id AND w.deleted_at IS NULL AND EXISTS (
    SELECT 1 FROM webhook_lane l
    WHERE l.org_id = w.org_id AND l.account_id = w.account_id AND l.state = ANY (@states::text[]) AND (@reason::text = '' OR l.reason = @reason)
)
FOR UPDATE OF w;

-- name: Renew :one
UPDATE webhook SET gen = nextval('webhook_gen'), updated_at = @now, changed_at = clock_timestamp()
WHERE org_id = @org_id AND account_id = @account_id RETURNING gen;

-- name: Order :exec
-- As package webhook does for an owner: from where it stands, as if nothing had failed.
UPDATE webhook_lane SET gen = @gen, state = @state, reason = CASE WHEN @sets_reason::boolean THEN @reason ELSE reason END, fail_since = NULL, fail_count = 0,
    next_at = NULL, head_tries = 0, head_since = NULL, updated_at = @now
WHERE org_id = @org_id AND account_id = @account_id;
