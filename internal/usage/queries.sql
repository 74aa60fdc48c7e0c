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
