-- name: Get :one
SELECT * FROM webhook WHERE org_id = @org_id AND account_id = @account_id AND deleted_at IS NULL;

-- name: Lock :one
SELECT * FROM webhook WHERE org_id = @org_id AND account_id = @account_id FOR UPDATE;

-- name: Serialize :exec
-- tenant: it locks a name
SELECT pg_advisory_xact_lock(7264019, hashtext(@account_id::text));

-- name: Put :one
INSERT INTO webhook (org_id, account_id, bucket, url, events, ordering, max_in_flight, secret_version, secret, secret_last4, start_seq, gen,
    test_at, created_at, updated_at)
VALUES (@org_id, @account_id, @bucket, @url, @events, @ordering, @max_in_flight, @secret_version, @secret, @secret_last4, @start_seq,
    nextval('webhook_gen'), @now, @now, @now)
ON CONFLICT (org_id, account_id) DO UPDATE SET url = excluded.url, events = excluded.events, ordering = excluded.ordering,
    max_in_flight = excluded.max_in_flight, secret_version = excluded.secret_version, secret = excluded.secret, secret_last4 = excluded.secret_last4,
    previous = CASE WHEN @keep_previous::boolean THEN webhook.previous END,
    previous_version = CASE WHEN @keep_previous::boolean THEN webhook.previous_version ELSE 0 END,
    previous_until = CASE WHEN @keep_previous::boolean THEN webhook.previous_until END,
    start_seq = CASE WHEN webhook.deleted_at IS NULL THEN webhook.start_seq ELSE excluded.start_seq END,
    created_at = CASE WHEN webhook.deleted_at IS NULL THEN webhook.created_at ELSE excluded.created_at END,
    gen = excluded.gen, updated_at = excluded.updated_at, changed_at = clock_timestamp(), deleted_at = NULL
RETURNING *;

-- name: Rotate :one
UPDATE webhook SET previous = CASE WHEN @previous_until::timestamptz > @now::timestamptz THEN secret END, previous_version = secret_version,
    previous_until = @previous_until, secret = @secret, secret_version = @secret_version, secret_last4 = @secret_last4, updated_at = @now,
    changed_at = clock_timestamp()
WHERE org_id = @org_id AND account_id = @account_id AND deleted_at IS NULL
RETURNING *;

-- name: Renew :one
UPDATE webhook SET gen = nextval('webhook_gen'), updated_at = @now, changed_at = clock_timestamp()
WHERE org_id = @org_id AND account_id = @account_id AND deleted_at IS NULL
RETURNING *;

-- name: Delete :execrows
UPDATE webhook SET deleted_at = @now::timestamptz, secret = NULL, previous = NULL, gen = nextval('webhook_gen'), changed_at = clock_timestamp()
WHERE org_id = @org_id AND account_id = @account_id AND deleted_at IS NULL;

-- name: Erase :exec
-- Its lane and its side deliveries are deleted with it.
DELETE FROM webhook WHERE org_id = @org_id AND account_id = @account_id;

-- name: ToPurge :many
SELECT at, id FROM webhook_delivery
WHERE org_id = @org_id AND account_id = @account_id AND at >= @after_at AND (at, id) > (@after_at::timestamptz, @after_id::text) AND snippet <> ''
ORDER BY at, id LIMIT @max_rows;

-- name: PurgeDeliveries :exec
UPDATE webhook_delivery SET snippet = ''
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@ats::timestamptz[]) AS at) n
WHERE webhook_delivery.org_id = @org_id AND webhook_delivery.account_id = @account_id AND webhook_delivery.at = n.at AND webhook_delivery.id = n.id;

-- name: HoldWebhooks :many
-- tenant: each delivery has its own org
-- Webhooks of accounts that are not deleted. The lock keeps them until the end of the transaction.
SELECT account_id FROM webhook WHERE account_id = ANY (@accounts::text[]) ORDER BY account_id FOR SHARE;

-- name: DeleteErrands :exec
DELETE FROM webhook_errand WHERE org_id = @org_id AND account_id = @account_id;

-- name: DeleteLane :exec
DELETE FROM webhook_lane WHERE org_id = @org_id AND account_id = @account_id;

-- name: ForgetDeleted :exec
-- tenant: age alone decides
DELETE FROM webhook WHERE deleted_at < @before;

-- name: SetTest :exec
UPDATE webhook SET test_at = @test_at, test_level = @test_level WHERE org_id = @org_id AND account_id = @account_id;

-- name: Lane :one
SELECT * FROM webhook_lane WHERE org_id = @org_id AND account_id = @account_id;

-- name: SetLane :exec
-- A change of a lane by its owner or an operator. A cursor of -1 stays where it is.
INSERT INTO webhook_lane (org_id, account_id, bucket, gen, state, cursor, moved, reason, updated_at)
VALUES (@org_id, @account_id, @bucket, @gen, @state, @cursor, @moved, @reason, @now)
ON CONFLICT (org_id, account_id) DO UPDATE SET gen = excluded.gen, state = excluded.state, reason = excluded.reason,
    cursor = CASE WHEN excluded.moved > 0 THEN excluded.cursor ELSE webhook_lane.cursor END,
    moved = CASE WHEN excluded.moved > 0 THEN excluded.moved ELSE webhook_lane.moved END, fail_since = NULL, fail_count = 0, next_at = NULL, head_tries = 0, head_since = NULL,
    updated_at = excluded.updated_at;

-- name: RenewLane :exec
-- For a webhook that was replaced: a failing lane retries immediately, a paused one stays paused.
UPDATE webhook_lane SET gen = @gen, state = CASE WHEN state IN ('backoff', 'disabled') THEN 'draining' ELSE state END,
    fail_since = NULL, fail_count = 0, next_at = NULL, head_tries = 0, head_since = NULL, updated_at = @now
WHERE org_id = @org_id AND account_id = @account_id;

-- name: Load :many
-- tenant: the holder of a bucket loads the webhooks of its accounts, of all organisations
SELECT sqlc.embed(webhook), l.gen AS lane_gen, l.state, l.cursor, l.moved, l.fail_since, l.fail_count, l.next_at, l.last_status, l.last_error,
    l.reason, l.head_tries, l.head_since
FROM webhook LEFT JOIN webhook_lane l ON l.org_id = webhook.org_id AND l.account_id = webhook.account_id
WHERE webhook.account_id = ANY (@accounts::text[]) AND webhook.deleted_at IS NULL;

-- name: Some :many
SELECT sqlc.embed(webhook), l.gen AS lane_gen, l.state, l.cursor, l.moved, l.fail_since, l.fail_count, l.next_at, l.last_status, l.last_error,
    l.reason, l.head_tries, l.head_since
FROM webhook LEFT JOIN webhook_lane l ON l.org_id = webhook.org_id AND l.account_id = webhook.account_id
WHERE webhook.org_id = @org_id AND webhook.account_id = ANY (@accounts::text[]) AND webhook.deleted_at IS NULL;

-- name: Existing :many
-- tenant: see Load
SELECT account_id FROM webhook WHERE account_id = ANY (@accounts::text[]) AND deleted_at IS NULL;

-- name: Changed :many
-- tenant: nodes look for changes of all webhooks
SELECT org_id, account_id, changed_at FROM webhook WHERE changed_at > @since ORDER BY changed_at LIMIT @max_rows;

-- name: Claim :one
-- tenant: buckets are work, not data
WITH before AS (SELECT b.clean FROM webhook_bucket b WHERE b.bucket = @bucket)
INSERT INTO webhook_bucket (bucket, epoch, floor_at, clean)
SELECT @bucket, @epoch, @first_floor, false WHERE @epoch::bigint >> 24 = (SELECT first_epoch() >> 24)
ON CONFLICT (bucket) DO UPDATE SET epoch = excluded.epoch, clean = false WHERE webhook_bucket.epoch <= excluded.epoch
RETURNING floor_at, coalesce((SELECT before.clean FROM before), true)::boolean AS was_clean;

-- name: Lanes :many
-- tenant: the holder of a bucket delivers all lanes in it
SELECT * FROM webhook_lane WHERE bucket = @bucket;

-- name: Fence :many
-- tenant: buckets are work, not data
SELECT webhook_bucket.bucket FROM webhook_bucket
JOIN (SELECT unnest(@buckets::smallint[]) AS bucket, unnest(@epochs::bigint[]) AS epoch) n
    ON webhook_bucket.bucket = n.bucket AND webhook_bucket.epoch = n.epoch
WHERE webhook_bucket.epoch >= (SELECT first_epoch())
ORDER BY webhook_bucket.bucket FOR UPDATE OF webhook_bucket;

-- name: SetFloors :exec
-- tenant: buckets are work, not data
UPDATE webhook_bucket SET floor_at = n.floor_at, clean = n.clean
FROM (SELECT unnest(@buckets::smallint[]) AS bucket, unnest(@floors::timestamptz[]) AS floor_at, unnest(@cleans::boolean[]) AS clean) n
WHERE webhook_bucket.bucket = n.bucket;

-- name: SaveLanes :many
-- tenant: each row has its own org
-- Only lanes of webhooks with the same generation are written. These webhooks are locked until the end of the transaction.
WITH n AS (
    SELECT unnest(@org_ids::text[]) AS org_id, unnest(@account_ids::text[]) AS account_id, unnest(@buckets::smallint[]) AS bucket,
        unnest(@gens::bigint[]) AS gen, unnest(@states::text[]) AS state, unnest(@cursors::bigint[]) AS cursor,
        unnest(@fail_sinces::timestamptz[]) AS fail_since, unnest(@fail_counts::integer[]) AS fail_count, unnest(@next_ats::timestamptz[]) AS next_at,
        unnest(@last_statuses::smallint[]) AS last_status, unnest(@last_errors::text[]) AS last_error, unnest(@reasons::text[]) AS reason,
        unnest(@head_tries::integer[]) AS head_tries, unnest(@head_sinces::timestamptz[]) AS head_since
), valid AS (
    SELECT w.org_id, w.account_id FROM webhook w JOIN n ON w.org_id = n.org_id AND w.account_id = n.account_id AND w.gen = n.gen
    WHERE w.deleted_at IS NULL ORDER BY w.account_id FOR SHARE OF w
)
INSERT INTO webhook_lane (org_id, account_id, bucket, gen, state, cursor, fail_since, fail_count, next_at, last_status, last_error, reason,
    head_tries, head_since, updated_at)
SELECT n.org_id, n.account_id, n.bucket, n.gen, n.state, n.cursor, nullif(n.fail_since, '0001-01-01 00:00:00+00'), n.fail_count, nullif(n.next_at, '0001-01-01 00:00:00+00'),
    n.last_status, n.last_error, n.reason, n.head_tries, nullif(n.head_since, '0001-01-01 00:00:00+00'), @now
FROM n JOIN valid ON valid.org_id = n.org_id AND valid.account_id = n.account_id
ON CONFLICT (org_id, account_id) DO UPDATE SET gen = excluded.gen, state = excluded.state, cursor = excluded.cursor, moved = 0,
    fail_since = excluded.fail_since, fail_count = excluded.fail_count, next_at = excluded.next_at, last_status = excluded.last_status,
    last_error = excluded.last_error, reason = excluded.reason, head_tries = excluded.head_tries, head_since = excluded.head_since,
    updated_at = excluded.updated_at
RETURNING account_id;

-- name: RemoveLanes :exec
-- tenant: each row has its own org
DELETE FROM webhook_lane USING (
    SELECT unnest(@org_ids::text[]) AS org_id, unnest(@account_ids::text[]) AS account_id, unnest(@gens::bigint[]) AS gen
) n
WHERE webhook_lane.org_id = n.org_id AND webhook_lane.account_id = n.account_id AND webhook_lane.gen = n.gen;

-- name: AddErrand :exec
-- Nothing is added if the webhook was deleted in the meantime.
INSERT INTO webhook_errand (org_id, account_id, id, bucket, kind, from_seq, to_seq, cursor, events, only_failed, tries, since, next_at)
SELECT w.org_id, w.account_id, @id, @bucket, @kind, @from_seq, @to_seq, @cursor, @events, @only_failed, @tries, @since, @next_at
FROM webhook w WHERE w.org_id = @org_id AND w.account_id = @account_id AND w.deleted_at IS NULL FOR SHARE
ON CONFLICT DO NOTHING;

-- name: DueErrands :many
-- tenant: the holder of a bucket runs its side deliveries
SELECT * FROM webhook_errand WHERE bucket = ANY (@buckets::smallint[]) AND next_at <= @now ORDER BY next_at LIMIT @max_rows;

-- name: MoveErrand :execrows
UPDATE webhook_errand SET cursor = @cursor, tries = @tries, since = @since, next_at = @next_at WHERE org_id = @org_id AND account_id = @account_id AND id = @id;

-- name: EndErrand :exec
DELETE FROM webhook_errand WHERE org_id = @org_id AND account_id = @account_id AND id = @id;

-- name: Deliveries :many
SELECT * FROM webhook_delivery
WHERE org_id = @org_id AND account_id = @account_id AND at >= @since AND at <= @before_at AND (at, id) < (@before_at::timestamptz, @before_id::text)
    AND (@every::boolean OR delivered = @delivered::boolean) AND (@kind::text = '' OR kind = @kind) AND (@event_id::text = '' OR event_id = @event_id)
ORDER BY at DESC, id DESC LIMIT @max_rows;

-- name: Delivery :one
SELECT * FROM webhook_delivery WHERE org_id = @org_id AND account_id = @account_id AND id = @id AND at >= @since AND at < @until;

-- name: LastDeliveries :many
-- The last delivery of each account. Each costs one index lookup.
SELECT a.account_id::text AS account_id, d.at, d.status, d.error, d.delivered
FROM unnest(@accounts::text[]) AS a (account_id)
CROSS JOIN LATERAL (
    SELECT at, status, error, delivered FROM webhook_delivery
    WHERE webhook_delivery.org_id = @org_id AND webhook_delivery.account_id = a.account_id AND webhook_delivery.at >= @since
    ORDER BY webhook_delivery.at DESC, webhook_delivery.id DESC LIMIT 1
) d;

-- name: LastAccepted :many
-- The last accepted delivery of each account, among its last thousand.
SELECT a.account_id::text AS account_id, max(d.at)::timestamptz AS at
FROM unnest(@accounts::text[]) AS a (account_id)
CROSS JOIN LATERAL (
    SELECT at, delivered FROM webhook_delivery
    WHERE webhook_delivery.org_id = @org_id AND webhook_delivery.account_id = a.account_id AND webhook_delivery.at >= @since
    ORDER BY webhook_delivery.at DESC, webhook_delivery.id DESC LIMIT 1000
) d
WHERE d.delivered GROUP BY a.account_id;

-- name: DeliveredSeqs :many
SELECT DISTINCT seq FROM webhook_delivery
WHERE org_id = @org_id AND account_id = @account_id AND at >= @since AND delivered AND seq BETWEEN @from_seq AND @to_seq;

-- name: ListWebhooks :many
-- The empty state selects webhooks without a lane, which keep up.
SELECT w.account_id
FROM webhook w LEFT JOIN webhook_lane l ON l.org_id = w.org_id AND l.account_id = w.account_id
WHERE w.org_id = @org_id AND w.account_id > @after AND w.deleted_at IS NULL
    AND (sqlc.narg(among)::text[] IS NULL OR w.account_id = ANY (sqlc.narg(among)))
    AND (@every::boolean OR coalesce(l.state, '') = ANY (@states::text[]))
    AND (@url::text = '' OR w.url = @url)
    AND (@query::text = '' OR position(lower(@query) IN lower(w.url)) > 0 OR w.account_id = ANY (@named::text[]))
ORDER BY w.account_id LIMIT @max_rows;

-- name: ListTroubled :many
-- ListWebhooks for states that few webhooks are in: it starts from the lanes.
SELECT w.account_id
FROM webhook_lane l JOIN webhook w ON w.org_id = l.org_id AND w.account_id = l.account_id
WHERE l.org_id = @org_id AND l.account_id > @after AND l.state = ANY (@states::text[]) AND w.deleted_at IS NULL
    AND (sqlc.narg(among)::text[] IS NULL OR l.account_id = ANY (sqlc.narg(among)))
    AND (@url::text = '' OR w.url = @url)
    AND (@query::text = '' OR position(lower(@query) IN lower(w.url)) > 0 OR w.account_id = ANY (@named::text[]))
ORDER BY l.account_id LIMIT @max_rows;

-- name: States :many
SELECT w.account_id, coalesce(l.state, '')::text AS state
FROM webhook w LEFT JOIN webhook_lane l ON l.org_id = w.org_id AND l.account_id = w.account_id
WHERE w.org_id = @org_id AND w.account_id = ANY (@accounts::text[]) AND w.deleted_at IS NULL;

-- name: CountByState :many
SELECT coalesce(l.state, '')::text AS state, count(*) AS webhooks
FROM webhook w LEFT JOIN webhook_lane l ON l.org_id = w.org_id AND l.account_id = w.account_id
WHERE w.org_id = @org_id AND w.deleted_at IS NULL AND (sqlc.narg(among)::text[] IS NULL OR w.account_id = ANY (sqlc.narg(among)))
GROUP BY 1;

-- name: CountByURL :many
-- The URLs that most webhooks have.
SELECT w.url, count(*) AS webhooks, count(*) FILTER (WHERE l.state = ANY (@attention::text[])) AS attention
FROM webhook w LEFT JOIN webhook_lane l ON l.org_id = w.org_id AND l.account_id = w.account_id
WHERE w.org_id = @org_id AND w.deleted_at IS NULL AND (sqlc.narg(among)::text[] IS NULL OR w.account_id = ANY (sqlc.narg(among)))
    AND (@query::text = '' OR position(lower(@query) IN lower(w.url)) > 0)
GROUP BY w.url ORDER BY webhooks DESC, w.url LIMIT @max_rows;

-- name: LaggingCursors :many
-- Cursors of webhooks that have not caught up. Paused webhooks do not deliver, so they do not count.
SELECT l.account_id, l.cursor
FROM webhook_lane l JOIN webhook w ON w.org_id = l.org_id AND w.account_id = l.account_id
WHERE l.org_id = @org_id AND l.state <> 'paused' AND l.cursor >= 0 AND w.deleted_at IS NULL;

-- name: CountRetries :one
-- Events that were set aside. Paused webhooks and endpoints do not count, as in LaggingCursors.
SELECT count(*) AS events, coalesce(min(r.since), 'epoch')::timestamptz AS since FROM (
    SELECT e.since FROM webhook_errand e
    WHERE e.org_id = @org_id AND e.kind = 'retry'
      AND NOT EXISTS (SELECT FROM webhook_lane l WHERE l.org_id = e.org_id AND l.account_id = e.account_id AND l.state = 'paused')
    UNION ALL
    SELECT e.since FROM webhook_endpoint_errand e JOIN webhook_endpoint w ON w.org_id = e.org_id AND w.id = e.endpoint_id
    WHERE e.org_id = @org_id AND e.kind = 'retry' AND w.enabled AND w.deleted_at IS NULL
) r;

-- name: FindDelivery :one
-- By id alone. The times limit the search to one or two partitions.
SELECT * FROM webhook_delivery WHERE org_id = @org_id AND id = @id AND at >= @since AND at < @until;

-- name: DeliveriesOfEvents :many
-- An event belongs to one account, so the account and the endpoints select its deliveries.
SELECT * FROM webhook_delivery
WHERE org_id = @org_id AND account_id = ANY (@accounts::text[]) AND at >= @since AND at <= @before_at AND (at, id) < (@before_at::timestamptz, @before_id::text)
    AND event_id = ANY (@events::text[])
ORDER BY at DESC, id DESC LIMIT @max_rows;

-- name: SecretsEndingIn :many
-- Webhooks whose secret ends in the same characters; there are few.
SELECT * FROM webhook
WHERE org_id = @org_id AND secret_last4 = @last4 AND account_id <> @but AND deleted_at IS NULL LIMIT 20;

-- name: FindLanes :many
-- tenant: operators see the lanes of all organisations
SELECT l.org_id, l.account_id, l.state, l.cursor, l.fail_since, l.fail_count, l.next_at, l.last_status, l.last_error, l.reason, w.url
FROM webhook_lane l JOIN webhook w ON w.org_id = l.org_id AND w.account_id = l.account_id AND w.deleted_at IS NULL
WHERE (l.org_id, l.account_id) > (@after_org::text, @after_account::text)
    AND l.state = ANY (@states::text[]) AND (@reason::text = '' OR l.reason = @reason) AND (@only_org::text = '' OR l.org_id = @only_org)
    AND (sqlc.narg(among)::text[] IS NULL OR l.account_id = ANY (sqlc.narg(among)))
ORDER BY l.org_id, l.account_id LIMIT @max_rows;

-- name: FailingLanes :many
-- tenant: the organisations of failing webhooks are notified alike
SELECT l.org_id, l.account_id, w.url, l.fail_since
FROM webhook_lane l JOIN webhook w ON w.org_id = l.org_id AND w.account_id = l.account_id AND w.deleted_at IS NULL
WHERE (l.org_id, l.account_id) > (@after_org::text, @after_account::text) AND l.state = 'backoff' AND l.fail_since <= @before
ORDER BY l.org_id, l.account_id LIMIT @max_rows;

-- name: FailingEndpoints :many
-- tenant: the organisations of failing endpoints are notified alike
SELECT e.org_id, e.id, e.url, p.fail_since
FROM webhook_endpoint_progress p JOIN webhook_endpoint e ON e.org_id = p.org_id AND e.id = p.endpoint_id
WHERE (e.org_id, e.id) > (@after_org::text, @after_id::text) AND e.deleted_at IS NULL AND p.state = 'backoff' AND p.fail_since <= @before
ORDER BY e.org_id, e.id LIMIT @max_rows;

-- name: EndpointsWithFailingAccounts :many
-- tenant: the organisations of failing endpoints are notified alike
-- Endpoints of which accounts fail since some time, although they are not down themselves.
SELECT e.org_id, e.id, e.url, min(l.fail_since)::timestamptz AS fail_since
FROM webhook_endpoint_lane l
JOIN webhook_endpoint e ON e.org_id = l.org_id AND e.id = l.endpoint_id
JOIN webhook_endpoint_progress p ON p.org_id = l.org_id AND p.endpoint_id = l.endpoint_id
WHERE (e.org_id, e.id) > (@after_org::text, @after_id::text) AND e.deleted_at IS NULL AND e.enabled AND p.state = 'live'
    AND l.state IN ('backoff', 'disabled') AND l.fail_since <= @before
    AND (l.last_status < 400 OR l.last_status >= 500 OR l.last_status = ANY (@down::smallint[]))
GROUP BY e.org_id, e.id, e.url
ORDER BY e.org_id, e.id LIMIT @max_rows;

-- name: CountLanes :many
-- tenant: operators see the lanes of all organisations
SELECT state, count(*) AS lanes FROM webhook_lane WHERE @only_org::text = '' OR org_id = @only_org GROUP BY state;

-- name: CountWebhooks :one
-- tenant: operators see the lanes of all organisations
SELECT count(*) FROM webhook WHERE deleted_at IS NULL AND (@only_org::text = '' OR org_id = @only_org);

-- name: SerializeEndpoints :exec
-- tenant: it locks a name
SELECT pg_advisory_xact_lock(7264019, hashtext(@owner::text));

-- name: CountEndpoints :one
SELECT count(*) FROM webhook_endpoint WHERE org_id = @org_id AND deleted_at IS NULL;

-- name: AddEndpoint :one
INSERT INTO webhook_endpoint (org_id, id, bucket, url, description, events, account_ids, platforms, ordering, secret_version, secret, secret_last4,
    gen, test_at, created_at, updated_at)
VALUES (@org_id, @id, @bucket, @url, @description, @events, @account_ids, @platforms, @ordering, @secret_version, @secret, @secret_last4,
    nextval('webhook_gen'), @now, @now, @now)
RETURNING *;

-- name: AddEndpointProgress :exec
INSERT INTO webhook_endpoint_progress (org_id, endpoint_id, after_tx, after_id, state, updated_at)
VALUES (@org_id, @endpoint_id, @after_tx, @after_id, 'live', @now);

-- name: LockEndpoint :one
SELECT * FROM webhook_endpoint WHERE org_id = @org_id AND id = @id AND deleted_at IS NULL FOR UPDATE;

-- name: ChangeEndpoint :one
UPDATE webhook_endpoint SET url = @url, description = @description, events = @events, account_ids = @account_ids, platforms = @platforms,
    ordering = @ordering, enabled = @enabled, gen = nextval('webhook_gen'), updated_at = @now, changed_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND deleted_at IS NULL
RETURNING *;

-- name: RenewEndpointProgress :exec
-- For an endpoint that was changed: it is tried again immediately, and so are its accounts.
UPDATE webhook_endpoint_progress SET state = 'live', fail_since = NULL, fail_count = 0, next_at = NULL, updated_at = @now
WHERE org_id = @org_id AND endpoint_id = @endpoint_id;

-- name: RenewEndpointLanes :exec
UPDATE webhook_endpoint_lane SET state = 'draining', fail_since = NULL, fail_count = 0, next_at = NULL, head_tries = 0, head_since = NULL, updated_at = @now
WHERE org_id = @org_id AND endpoint_id = @endpoint_id;

-- name: RotateEndpoint :one
UPDATE webhook_endpoint SET previous = CASE WHEN @previous_until::timestamptz > @now::timestamptz THEN secret END, previous_version = secret_version,
    previous_until = @previous_until, secret = @secret, secret_version = @secret_version, secret_last4 = @secret_last4,
    gen = nextval('webhook_gen'), updated_at = @now, changed_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND deleted_at IS NULL
RETURNING *;

-- name: DeleteEndpoint :execrows
UPDATE webhook_endpoint SET deleted_at = @now::timestamptz, secret = NULL, previous = NULL, gen = nextval('webhook_gen'), changed_at = clock_timestamp()
WHERE org_id = @org_id AND id = @id AND deleted_at IS NULL;

-- name: DeleteEndpointProgress :exec
DELETE FROM webhook_endpoint_progress WHERE org_id = @org_id AND endpoint_id = @endpoint_id;

-- name: DeleteEndpointLanes :exec
DELETE FROM webhook_endpoint_lane WHERE org_id = @org_id AND endpoint_id = @endpoint_id;

-- name: DeleteEndpointErrands :exec
DELETE FROM webhook_endpoint_errand WHERE org_id = @org_id AND endpoint_id = @endpoint_id;

-- name: DeleteSourceLanes :exec
-- An account is deleted: nothing of it waits for an endpoint any more.
DELETE FROM webhook_endpoint_lane WHERE org_id = @org_id AND source = @source;

-- name: DeleteSourceErrands :exec
DELETE FROM webhook_endpoint_errand WHERE org_id = @org_id AND source = @source AND source <> '';

-- name: ForgetDeletedEndpoints :exec
-- tenant: age alone decides
DELETE FROM webhook_endpoint WHERE deleted_at < @before;

-- name: SetEndpointTest :exec
UPDATE webhook_endpoint SET test_at = @test_at, test_level = @test_level WHERE org_id = @org_id AND id = @id;

-- name: Endpoints :many
SELECT sqlc.embed(e), sqlc.embed(p) FROM webhook_endpoint e
JOIN webhook_endpoint_progress p ON p.org_id = e.org_id AND p.endpoint_id = e.id
WHERE e.org_id = @org_id AND e.deleted_at IS NULL AND (@id::text = '' OR e.id = @id) ORDER BY e.id;

-- name: EndpointsOfBucket :many
-- tenant: the holder of a bucket sends the events of its endpoints, of all organisations
SELECT org_id, id FROM webhook_endpoint WHERE bucket = @bucket AND deleted_at IS NULL;

-- name: ChangedEndpoints :many
-- tenant: nodes look for changes of all endpoints
SELECT org_id, id, changed_at FROM webhook_endpoint WHERE changed_at > @since ORDER BY changed_at LIMIT @max_rows;

-- name: EndpointLanes :many
SELECT * FROM webhook_endpoint_lane WHERE org_id = @org_id AND endpoint_id = @endpoint_id;

-- name: EndpointCursors :many
SELECT source, cursor FROM webhook_endpoint_lane WHERE org_id = @org_id AND endpoint_id = @endpoint_id AND cursor >= 0
ORDER BY source LIMIT @max_rows;

-- name: FailingAccounts :many
-- Since when accounts of each endpoint fail, and when the first of them is tried again; 'epoch' if none is.
SELECT endpoint_id, min(fail_since)::timestamptz AS fail_since, coalesce(min(next_at), 'epoch')::timestamptz AS next_at
FROM webhook_endpoint_lane
WHERE org_id = @org_id AND endpoint_id = ANY (@endpoint_ids::text[]) AND state IN ('backoff', 'disabled') AND fail_since IS NOT NULL
    AND (last_status < 400 OR last_status >= 500 OR last_status = ANY (@down::smallint[]))
GROUP BY endpoint_id;

-- name: SaveProgress :many
-- tenant: each row has its own org
-- Positions are always written. States are written only for the same generation: a change of the endpoint has reset them. The endpoints are
-- locked until the end of the transaction.
WITH n AS (
    SELECT unnest(@org_ids::text[]) AS org_id, unnest(@endpoint_ids::text[]) AS endpoint_id, unnest(@gens::bigint[]) AS gen,
        unnest(@after_txs::bigint[]) AS after_tx, unnest(@after_ids::text[]) AS after_id, unnest(@states::text[]) AS state,
        unnest(@fail_sinces::timestamptz[]) AS fail_since, unnest(@fail_counts::integer[]) AS fail_count, unnest(@next_ats::timestamptz[]) AS next_at,
        unnest(@last_statuses::smallint[]) AS last_status, unnest(@last_errors::text[]) AS last_error, unnest(@reasons::text[]) AS reason
), valid AS (
    SELECT e.org_id, e.id, e.gen = n.gen AS is_current FROM webhook_endpoint e JOIN n ON e.org_id = n.org_id AND e.id = n.endpoint_id
    WHERE e.deleted_at IS NULL ORDER BY e.id FOR SHARE OF e
)
UPDATE webhook_endpoint_progress p SET after_tx = n.after_tx, after_id = n.after_id,
    state = CASE WHEN valid.is_current THEN n.state ELSE p.state END,
    fail_since = CASE WHEN valid.is_current THEN nullif(n.fail_since, '0001-01-01 00:00:00+00') ELSE p.fail_since END,
    fail_count = CASE WHEN valid.is_current THEN n.fail_count ELSE p.fail_count END,
    next_at = CASE WHEN valid.is_current THEN nullif(n.next_at, '0001-01-01 00:00:00+00') ELSE p.next_at END,
    last_status = n.last_status, last_error = n.last_error, reason = CASE WHEN valid.is_current THEN n.reason ELSE p.reason END, updated_at = @now
FROM n JOIN valid ON valid.org_id = n.org_id AND valid.id = n.endpoint_id
WHERE p.org_id = n.org_id AND p.endpoint_id = n.endpoint_id
RETURNING p.endpoint_id, valid.is_current;

-- name: SaveEndpointLanes :exec
-- tenant: each row has its own org
-- Like SaveLanes. Its transaction has locked the endpoints with SaveProgress.
INSERT INTO webhook_endpoint_lane (org_id, endpoint_id, source, state, cursor, fail_since, fail_count, next_at, last_status, last_error, reason,
    head_tries, head_since, updated_at)
SELECT n.org_id, n.endpoint_id, n.source, n.state, n.cursor, nullif(n.fail_since, '0001-01-01 00:00:00+00'), n.fail_count,
    nullif(n.next_at, '0001-01-01 00:00:00+00'), n.last_status, n.last_error, n.reason, n.head_tries, nullif(n.head_since, '0001-01-01 00:00:00+00'), @now
FROM (
    SELECT unnest(@org_ids::text[]) AS org_id, unnest(@endpoint_ids::text[]) AS endpoint_id, unnest(@sources::text[]) AS source,
        unnest(@states::text[]) AS state, unnest(@cursors::bigint[]) AS cursor,
        unnest(@fail_sinces::timestamptz[]) AS fail_since, unnest(@fail_counts::integer[]) AS fail_count, unnest(@next_ats::timestamptz[]) AS next_at,
        unnest(@last_statuses::smallint[]) AS last_status, unnest(@last_errors::text[]) AS last_error, unnest(@reasons::text[]) AS reason,
        unnest(@head_tries::integer[]) AS head_tries, unnest(@head_sinces::timestamptz[]) AS head_since
) n
ON CONFLICT (org_id, endpoint_id, source) DO UPDATE SET state = excluded.state, cursor = excluded.cursor,
    fail_since = excluded.fail_since, fail_count = excluded.fail_count, next_at = excluded.next_at, last_status = excluded.last_status,
    last_error = excluded.last_error, reason = excluded.reason, head_tries = excluded.head_tries, head_since = excluded.head_since,
    updated_at = excluded.updated_at;

-- name: RemoveEndpointLanes :exec
-- tenant: each row has its own org
DELETE FROM webhook_endpoint_lane l USING (
    SELECT unnest(@org_ids::text[]) AS org_id, unnest(@endpoint_ids::text[]) AS endpoint_id, unnest(@sources::text[]) AS source
) n
WHERE l.org_id = n.org_id AND l.endpoint_id = n.endpoint_id AND l.source = n.source;

-- name: AddEndpointErrand :exec
-- Nothing is added if the endpoint was deleted in the meantime.
INSERT INTO webhook_endpoint_errand (org_id, endpoint_id, id, bucket, kind, source, seq, after_tx, after_id, until_tx, from_at, until_at, account_ids,
    events, tries, since, next_at)
SELECT e.org_id, e.id, @id, e.bucket, @kind, @source, @seq, @after_tx, @after_id, @until_tx, @from_at, @until_at, @account_ids, @events, @tries, @since,
    @next_at
FROM webhook_endpoint e WHERE e.org_id = @org_id AND e.id = @endpoint_id AND e.deleted_at IS NULL FOR SHARE
ON CONFLICT DO NOTHING;

-- name: DueEndpointErrands :many
-- tenant: the holder of a bucket runs its side deliveries
SELECT * FROM webhook_endpoint_errand WHERE bucket = ANY (@buckets::smallint[]) AND next_at <= @now ORDER BY next_at LIMIT @max_rows;

-- name: MoveEndpointErrand :execrows
UPDATE webhook_endpoint_errand SET after_tx = @after_tx, after_id = @after_id, tries = @tries, since = @since, next_at = @next_at
WHERE org_id = @org_id AND endpoint_id = @endpoint_id AND id = @id;

-- name: EndEndpointErrand :exec
DELETE FROM webhook_endpoint_errand WHERE org_id = @org_id AND endpoint_id = @endpoint_id AND id = @id;

-- name: SuccessRates :many
-- The share of accepted attempts among the last 10,000 of each endpoint.
SELECT a.account_id::text AS endpoint_id, count(*) AS attempts, count(*) FILTER (WHERE d.delivered) AS accepted
FROM unnest(@endpoint_ids::text[]) AS a (account_id)
CROSS JOIN LATERAL (
    SELECT delivered FROM webhook_delivery
    WHERE webhook_delivery.org_id = @org_id AND webhook_delivery.account_id = a.account_id AND webhook_delivery.at >= @since
    ORDER BY webhook_delivery.at DESC, webhook_delivery.id DESC LIMIT 10000
) d
GROUP BY a.account_id;

-- name: WebhooksToReplace :many
-- The webhooks of accounts that an endpoint with the same URL takes over, with how far they are: to their cursor, or to the floor of their
-- bucket if that is unknown. Paused ones stay.
SELECT w.account_id, w.start_seq, coalesce(l.cursor, -1)::bigint AS cursor, coalesce(b.floor_at, 'epoch')::timestamptz AS floor_at
FROM webhook w
LEFT JOIN webhook_lane l ON l.org_id = w.org_id AND l.account_id = w.account_id
LEFT JOIN webhook_bucket b ON b.bucket = w.bucket
WHERE w.org_id = @org_id AND w.url = @url AND w.deleted_at IS NULL AND coalesce(l.state, '') <> 'paused'
    AND (sqlc.narg(among)::text[] IS NULL OR w.account_id = ANY (sqlc.narg(among)))
ORDER BY w.account_id FOR UPDATE OF w;

-- name: TakeOverLanes :exec
INSERT INTO webhook_endpoint_lane (org_id, endpoint_id, source, state, cursor, updated_at)
SELECT @org_id, @endpoint_id, unnest(@sources::text[]), 'draining', unnest(@cursors::bigint[]), @now;

-- name: TakeOverRetries :exec
INSERT INTO webhook_endpoint_errand (org_id, endpoint_id, id, bucket, kind, source, seq, after_tx, after_id, until_tx, tries, since, next_at)
SELECT r.org_id, @endpoint_id, r.id, @bucket, r.kind, r.account_id, r.from_seq, 0, '', 0, r.tries, r.since, r.next_at FROM webhook_errand r
WHERE r.org_id = @org_id AND r.account_id = ANY (@sources::text[]) AND r.kind = 'retry';

-- name: DeleteReplaced :exec
UPDATE webhook SET deleted_at = @now::timestamptz, secret = NULL, previous = NULL, gen = nextval('webhook_gen'), changed_at = clock_timestamp()
WHERE org_id = @org_id AND account_id = ANY (@sources::text[]);

-- name: DeleteReplacedLanes :exec
DELETE FROM webhook_lane WHERE org_id = @org_id AND account_id = ANY (@sources::text[]);

-- name: DeleteReplacedErrands :exec
DELETE FROM webhook_errand WHERE org_id = @org_id AND account_id = ANY (@sources::text[]);
