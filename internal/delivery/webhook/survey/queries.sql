-- name: All :many
-- An empty state is that of webhooks that are up to date.
SELECT w.account_id
FROM webhook w LEFT JOIN webhook_lane l ON l.org_id = w.org_id AND l.account_id = w.account_id
WHERE w.org_id = @org_id AND w.account_id > @after AND w.deleted_at IS NULL
    AND (sqlc.narg(among)::text[] IS NULL OR w.account_id = ANY (sqlc.narg(among)))
    AND (@every::boolean OR coalesce(l.state, '') = ANY (@states::text[]))
ORDER BY w.account_id LIMIT @max_rows;

-- name: Troubled :many
-- All for states that only few webhooks are in: it begins with the lanes.
SELECT w.account_id
FROM webhook_lane l JOIN webhook w ON w.org_id = l.org_id AND w.account_id = l.account_id
WHERE l.org_id = @org_id AND l.account_id > @after AND l.state = ANY (@states::text[]) AND w.deleted_at IS NULL
    AND (sqlc.narg(among)::text[] IS NULL OR l.account_id = ANY (sqlc.narg(among)))
ORDER BY l.account_id LIMIT @max_rows;

-- name: States :many
SELECT w.account_id, coalesce(l.state, '')::text AS state
FROM webhook w LEFT JOIN webhook_lane l ON l.org_id = w.org_id AND l.account_id = w.account_id
WHERE w.org_id = @org_id AND w.account_id = ANY (@accounts::text[]) AND w.deleted_at IS NULL;

-- name: Counts :many
SELECT coalesce(l.state, '')::text AS state, count(*) AS webhooks
FROM webhook w LEFT JOIN webhook_lane l ON l.org_id = w.org_id AND l.account_id = w.account_id
WHERE w.org_id = @org_id AND w.deleted_at IS NULL AND (sqlc.narg(among)::text[] IS NULL OR w.account_id = ANY (sqlc.narg(among)))
GROUP BY 1;

-- name: Behind :many
-- The places of webhooks that should deliver and have not caught up. Paused ones have nothing to deliver.
SELECT l.account_id, l.cursor
FROM webhook_lane l JOIN webhook w ON w.org_id = l.org_id AND w.account_id = l.account_id
WHERE l.org_id = @org_id AND l.state <> 'paused' AND l.cursor >= 0 AND w.deleted_at IS NULL;

-- name: Delivery :one
-- By its id alone. The times keep it to one or two partitions.
SELECT * FROM webhook_delivery WHERE org_id = @org_id AND id = @id AND at >= @since AND at < @until;

-- name: OfEvents :many
-- An event is one account's, so its deliveries are found by that.
SELECT * FROM webhook_delivery
WHERE org_id = @org_id AND account_id = ANY (@accounts::text[]) AND at >= @since AND at <= @before_at AND (at, id) < (@before_at::timestamptz, @before_id::text)
    AND event_id = ANY (@events::text[])
ORDER BY at DESC, id DESC LIMIT @max_rows;

-- name: Secrets :one
SELECT secret_version, secret, previous_version, previous FROM webhook
WHERE org_id = @org_id AND account_id = @account_id AND deleted_at IS NULL;

-- name: SecretsLike :many
-- Webhooks whose secret ends alike; they are few.
SELECT account_id, secret_version, secret FROM webhook
WHERE org_id = @org_id AND secret_last4 = @last4 AND account_id <> @but AND deleted_at IS NULL LIMIT 20;
