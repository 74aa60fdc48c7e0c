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
INSERT INTO usage_event (org_id, hour, received, streamed, delivered, failed, slowest_us)
SELECT unnest(@org_ids::text[]), unnest(@hours::timestamptz[]), unnest(@received::bigint[]), unnest(@streamed::bigint[]),
       unnest(@delivered::bigint[]), unnest(@failed::bigint[]), unnest(@slowest_us::bigint[])
ON CONFLICT (org_id, hour)
DO UPDATE SET received = usage_event.received + excluded.received, streamed = usage_event.streamed + excluded.streamed,
    delivered = usage_event.delivered + excluded.delivered, failed = usage_event.failed + excluded.failed,
    slowest_us = greatest(usage_event.slowest_us, excluded.slowest_us);

-- name: AddEventMinutes :exec
INSERT INTO usage_event_minute (org_id, minute, received, streamed, delivered, failed, slowest_us)
SELECT unnest(@org_ids::text[]), unnest(@minutes::timestamptz[]), unnest(@received::bigint[]), unnest(@streamed::bigint[]),
       unnest(@delivered::bigint[]), unnest(@failed::bigint[]), unnest(@slowest_us::bigint[])
ON CONFLICT (org_id, minute)
DO UPDATE SET received = usage_event_minute.received + excluded.received, streamed = usage_event_minute.streamed + excluded.streamed,
    delivered = usage_event_minute.delivered + excluded.delivered, failed = usage_event_minute.failed + excluded.failed,
    slowest_us = greatest(usage_event_minute.slowest_us, excluded.slowest_us);

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
SELECT hour, received, streamed, delivered, failed, slowest_us FROM usage_event
WHERE org_id = @org_id AND hour >= @since AND hour < @until;

-- name: EventsByMinute :many
SELECT minute, received, streamed, delivered, failed, slowest_us FROM usage_event_minute
WHERE org_id = @org_id AND minute >= @since AND minute < @until;

-- name: AddSlices :exec
-- As AddSeries.
INSERT INTO usage_slice (org_id, step, dimension, name, at, calls, limited, client_errors, failed, took)
SELECT unnest(@org_ids::text[]), unnest(@steps::integer[]), unnest(@dimensions::text[]), unnest(@names::text[]), unnest(@times::timestamptz[]),
    unnest(@calls::bigint[]), unnest(@limited::bigint[]), unnest(@client_errors::bigint[]), unnest(@failed::bigint[]), unnest(@took::text[])::bigint[]
ON CONFLICT (org_id, step, dimension, name, at)
DO UPDATE SET calls = usage_slice.calls + excluded.calls, limited = usage_slice.limited + excluded.limited,
    client_errors = usage_slice.client_errors + excluded.client_errors, failed = usage_slice.failed + excluded.failed,
    took = (
        SELECT array_agg(coalesce(usage_slice.took[i], 0) + coalesce(excluded.took[i], 0) ORDER BY i)
        FROM generate_series(1, greatest(cardinality(usage_slice.took), cardinality(excluded.took))) AS c (i)
    );

-- name: Slices :many
SELECT at, calls, limited, client_errors, failed, took FROM usage_slice
WHERE org_id = @org_id AND step = @step AND dimension = @dimension AND name = ANY (@names::text[]) AND at >= @since AND at < @until;

-- name: DropMinutes :execrows
DELETE FROM usage_slice s WHERE s.org_id = ANY (@org_ids::text[]) AND s.step = 60 AND s.at < @before;

-- name: DropEventMinutes :execrows
DELETE FROM usage_event_minute e WHERE e.org_id = ANY (@org_ids::text[]) AND e.minute < @before;

-- name: RollUpCalls :execrows
-- Adds the hours of old days to the first hour of their day. The first hour itself is not touched by the DELETE.
WITH old AS (
    DELETE FROM usage_hour u WHERE u.org_id = ANY (@org_ids::text[]) AND u.hour < @before AND u.hour <> date_trunc('day', u.hour, 'UTC') RETURNING u.*
)
INSERT INTO usage_hour (org_id, hour, account_id, operation, access, outcome, calls)
SELECT old.org_id, date_trunc('day', old.hour, 'UTC'), old.account_id, old.operation, old.access, old.outcome, sum(old.calls) FROM old GROUP BY 1, 2, 3, 4, 5, 6
ON CONFLICT (org_id, hour, account_id, operation, access, outcome) DO UPDATE SET calls = usage_hour.calls + excluded.calls;

-- name: RollUpBytes :execrows
WITH old AS (
    DELETE FROM usage_bytes u WHERE u.org_id = ANY (@org_ids::text[]) AND u.hour < @before AND u.hour <> date_trunc('day', u.hour, 'UTC') RETURNING u.*
)
INSERT INTO usage_bytes (org_id, hour, region, sent, received)
SELECT old.org_id, date_trunc('day', old.hour, 'UTC'), old.region, sum(old.sent), sum(old.received) FROM old GROUP BY 1, 2, 3
ON CONFLICT (org_id, hour, region) DO UPDATE SET sent = usage_bytes.sent + excluded.sent, received = usage_bytes.received + excluded.received;

-- name: RollUpEvents :execrows
WITH old AS (
    DELETE FROM usage_event u WHERE u.org_id = ANY (@org_ids::text[]) AND u.hour < @before AND u.hour <> date_trunc('day', u.hour, 'UTC') RETURNING u.*
)
INSERT INTO usage_event (org_id, hour, received, streamed, delivered, failed, slowest_us)
SELECT old.org_id, date_trunc('day', old.hour, 'UTC'), sum(old.received), sum(old.streamed), sum(old.delivered), sum(old.failed), max(old.slowest_us) FROM old GROUP BY 1, 2
ON CONFLICT (org_id, hour) DO UPDATE SET received = usage_event.received + excluded.received, streamed = usage_event.streamed + excluded.streamed,
    delivered = usage_event.delivered + excluded.delivered, failed = usage_event.failed + excluded.failed,
    slowest_us = greatest(usage_event.slowest_us, excluded.slowest_us);

-- name: RollUpSeries :execrows
WITH old AS (
    DELETE FROM usage_series u
    WHERE u.org_id = ANY (@org_ids::text[]) AND u.hour < @before AND u.hour <> date_trunc('day', u.hour, 'UTC') RETURNING u.*
), classes AS (
    SELECT o.org_id, o.account_id, date_trunc('day', o.hour, 'UTC') AS day, c.class, sum(c.calls)::bigint AS calls
    FROM old o, unnest(o.took) WITH ORDINALITY AS c (calls, class) GROUP BY 1, 2, 3, 4
), histograms AS (
    SELECT k.org_id, k.account_id, k.day, array_agg(k.calls ORDER BY k.class) AS took FROM classes k GROUP BY 1, 2, 3
), totals AS (
    SELECT o.org_id, o.account_id, date_trunc('day', o.hour, 'UTC') AS day, sum(o.calls)::bigint AS calls, sum(o.limited)::bigint AS limited,
        sum(o.client_errors)::bigint AS client_errors, sum(o.failed)::bigint AS failed
    FROM old o GROUP BY 1, 2, 3
)
INSERT INTO usage_series (org_id, account_id, hour, calls, limited, client_errors, failed, took)
SELECT t.org_id, t.account_id, t.day, t.calls, t.limited, t.client_errors, t.failed, coalesce(h.took, '{}')
FROM totals t LEFT JOIN histograms h ON h.org_id = t.org_id AND h.account_id = t.account_id AND h.day = t.day
ON CONFLICT (org_id, account_id, hour)
DO UPDATE SET calls = usage_series.calls + excluded.calls, limited = usage_series.limited + excluded.limited,
    client_errors = usage_series.client_errors + excluded.client_errors, failed = usage_series.failed + excluded.failed,
    took = (
        SELECT coalesce(array_agg(coalesce(usage_series.took[i], 0) + coalesce(excluded.took[i], 0) ORDER BY i), '{}')
        FROM generate_series(1, greatest(cardinality(usage_series.took), cardinality(excluded.took))) AS c (i)
    );

-- name: RollUpSlices :execrows
WITH old AS (
    DELETE FROM usage_slice u
    WHERE u.org_id = ANY (@org_ids::text[]) AND u.step = 3600 AND u.at < @before AND u.at <> date_trunc('day', u.at, 'UTC') RETURNING u.*
), classes AS (
    SELECT o.org_id, o.dimension, o.name, date_trunc('day', o.at, 'UTC') AS day, c.class, sum(c.calls)::bigint AS calls
    FROM old o, unnest(o.took) WITH ORDINALITY AS c (calls, class) GROUP BY 1, 2, 3, 4, 5
), histograms AS (
    SELECT k.org_id, k.dimension, k.name, k.day, array_agg(k.calls ORDER BY k.class) AS took FROM classes k GROUP BY 1, 2, 3, 4
), totals AS (
    SELECT o.org_id, o.dimension, o.name, date_trunc('day', o.at, 'UTC') AS day, sum(o.calls)::bigint AS calls, sum(o.limited)::bigint AS limited,
        sum(o.client_errors)::bigint AS client_errors, sum(o.failed)::bigint AS failed
    FROM old o GROUP BY 1, 2, 3, 4
)
INSERT INTO usage_slice (org_id, step, dimension, name, at, calls, limited, client_errors, failed, took)
SELECT t.org_id, 3600, t.dimension, t.name, t.day, t.calls, t.limited, t.client_errors, t.failed, coalesce(h.took, '{}')
FROM totals t LEFT JOIN histograms h ON h.org_id = t.org_id AND h.dimension = t.dimension AND h.name = t.name AND h.day = t.day
ON CONFLICT (org_id, step, dimension, name, at)
DO UPDATE SET calls = usage_slice.calls + excluded.calls, limited = usage_slice.limited + excluded.limited,
    client_errors = usage_slice.client_errors + excluded.client_errors, failed = usage_slice.failed + excluded.failed,
    took = (
        SELECT coalesce(array_agg(coalesce(usage_slice.took[i], 0) + coalesce(excluded.took[i], 0) ORDER BY i), '{}')
        FROM generate_series(1, greatest(cardinality(usage_slice.took), cardinality(excluded.took))) AS c (i)
    );

-- name: Days :many
-- A day whose hours have been rolled up has one row instead of 24; the sums are the same.
SELECT u.org_id, u.day::timestamptz AS day, sum(u.calls)::bigint AS calls, sum(u.failed)::bigint AS failed, sum(u.rate_limited)::bigint AS rate_limited,
    sum(u.accounts)::bigint AS accounts, sum(u.received)::bigint AS events_received, sum(u.streamed)::bigint AS streamed, sum(u.delivered)::bigint AS delivered,
    sum(u.undelivered)::bigint AS undelivered, sum(u.bytes_sent)::bigint AS sent, sum(u.bytes_received)::bigint AS received
FROM (
    SELECT h.org_id, date_trunc('day', h.hour, 'UTC') AS day, sum(h.calls) AS calls, coalesce(sum(h.calls) FILTER (WHERE h.outcome = 'failed'), 0) AS failed,
        coalesce(sum(h.calls) FILTER (WHERE h.outcome = 'rate_limited'), 0) AS rate_limited, count(DISTINCT nullif(h.account_id, '')) AS accounts,
        0 AS received, 0 AS streamed, 0 AS delivered, 0 AS undelivered, 0 AS bytes_sent, 0 AS bytes_received
    FROM usage_hour h WHERE h.org_id = ANY (@org_ids::text[]) AND h.hour >= @since AND h.hour < @until GROUP BY 1, 2
    UNION ALL
    SELECT e.org_id, date_trunc('day', e.hour, 'UTC'), 0, 0, 0, 0, sum(e.received), sum(e.streamed), sum(e.delivered), sum(e.failed), 0, 0
    FROM usage_event e WHERE e.org_id = ANY (@org_ids::text[]) AND e.hour >= @since AND e.hour < @until GROUP BY 1, 2
    UNION ALL
    SELECT b.org_id, date_trunc('day', b.hour, 'UTC'), 0, 0, 0, 0, 0, 0, 0, 0, sum(b.sent), sum(b.received)
    FROM usage_bytes b WHERE b.org_id = ANY (@org_ids::text[]) AND b.hour >= @since AND b.hour < @until GROUP BY 1, 2
) u
GROUP BY 1, 2 ORDER BY 1, 2;
