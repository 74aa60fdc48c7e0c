-- name: Add :exec
INSERT INTO usage_hour (org_id, hour, account_id, operation, access, outcome, calls)
SELECT unnest(@org_ids::text[]), unnest(@hours::timestamptz[]), unnest(@account_ids::text[]),
       unnest(@operations::text[]), unnest(@accesses::text[]), unnest(@outcomes::text[]), unnest(@calls::bigint[])
ON CONFLICT (org_id, hour, account_id, operation, access, outcome)
DO UPDATE SET calls = usage_hour.calls + excluded.calls;

-- name: Sum :many
SELECT operation, access, outcome, sum(calls)::bigint AS calls
FROM usage_hour
WHERE org_id = @org_id AND hour >= @since AND hour < @until
GROUP BY operation, access, outcome;

-- name: AddBytes :exec
INSERT INTO usage_bytes (org_id, hour, region, sent, received)
SELECT unnest(@org_ids::text[]), unnest(@hours::timestamptz[]), unnest(@regions::text[]), unnest(@sent_sums::bigint[]), unnest(@received_sums::bigint[])
ON CONFLICT (org_id, hour, region)
DO UPDATE SET sent = usage_bytes.sent + excluded.sent, received = usage_bytes.received + excluded.received;

-- name: SumBytes :many
SELECT region, sum(sent)::bigint AS sent, sum(received)::bigint AS received
FROM usage_bytes
WHERE org_id = @org_id AND hour >= @since AND hour < @until
GROUP BY region;

-- name: AddEvents :exec
INSERT INTO usage_event (org_id, hour, received, streamed, delivered, failed)
SELECT unnest(@org_ids::text[]), unnest(@hours::timestamptz[]), unnest(@received::bigint[]), unnest(@streamed::bigint[]),
       unnest(@delivered::bigint[]), unnest(@failed::bigint[])
ON CONFLICT (org_id, hour)
DO UPDATE SET received = usage_event.received + excluded.received, streamed = usage_event.streamed + excluded.streamed,
    delivered = usage_event.delivered + excluded.delivered, failed = usage_event.failed + excluded.failed;

-- name: SumEvents :one
SELECT coalesce(sum(received), 0)::bigint AS received, coalesce(sum(streamed), 0)::bigint AS streamed,
    coalesce(sum(delivered), 0)::bigint AS delivered, coalesce(sum(failed), 0)::bigint AS failed
FROM usage_event
WHERE org_id = @org_id AND hour >= @since AND hour < @until;

-- name: AddSeries :exec
-- An array of arrays cannot be taken apart by unnest, so each row's classes come as text.
INSERT INTO usage_series (org_id, account_id, hour, calls, limited, client_errors, failed, took)
SELECT unnest(@org_ids::text[]), unnest(@account_ids::text[]), unnest(@hours::timestamptz[]), unnest(@calls::bigint[]), unnest(@limited::bigint[]),
    unnest(@client_errors::bigint[]), unnest(@failed::bigint[]), unnest(@took::text[])::bigint[]
ON CONFLICT (org_id, account_id, hour)
DO UPDATE SET calls = usage_series.calls + excluded.calls, limited = usage_series.limited + excluded.limited,
    client_errors = usage_series.client_errors + excluded.client_errors, failed = usage_series.failed + excluded.failed,
    took = (
        SELECT array_agg(coalesce(usage_series.took[i], 0) + coalesce(excluded.took[i], 0) ORDER BY i)
        FROM generate_series(1, greatest(cardinality(usage_series.took), cardinality(excluded.took))) AS c (i)
    );

-- name: Series :many
SELECT hour, calls, limited, client_errors, failed, took FROM usage_series
WHERE org_id = @org_id AND account_id = ANY (@account_ids::text[]) AND hour >= @since AND hour < @until;

-- name: Activity :many
SELECT account_id, hour, calls FROM usage_series
WHERE org_id = @org_id AND account_id = ANY (@account_ids::text[]) AND hour >= @since;

-- name: EventsByHour :many
SELECT hour, received, streamed, delivered, failed FROM usage_event
WHERE org_id = @org_id AND hour >= @since AND hour < @until;
