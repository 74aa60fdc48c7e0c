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
