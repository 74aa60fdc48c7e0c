-- name: Publish :execrows
-- The row of the bucket is locked until the commit, so positions become visible in order.
-- A duplicate id is not stored but uses up a position.
WITH place AS (
    INSERT INTO eventlog_bucket AS b (bucket, last) VALUES (@bucket, 1)
    ON CONFLICT (bucket) DO UPDATE SET last = b.last + 1
    RETURNING b.last
)
INSERT INTO eventlog_entry (bucket, seq, id, data, traces) SELECT @bucket, place.last, @id, @data, sqlc.narg(traces)::text[] FROM place
ON CONFLICT (bucket, id) DO NOTHING;

-- name: Prepare :exec
INSERT INTO eventlog_bucket (bucket) SELECT b::integer FROM unnest(@buckets::integer[]) AS b ON CONFLICT (bucket) DO NOTHING;

-- name: Heads :many
SELECT bucket, last, epoch::text AS epoch FROM eventlog_bucket WHERE bucket = ANY (@buckets::integer[]);

-- name: Firsts :many
-- The oldest entry of each bucket that has one.
SELECT b.bucket::integer AS bucket, e.seq AS first
FROM unnest(@buckets::integer[]) AS b (bucket)
CROSS JOIN LATERAL (
    SELECT seq FROM eventlog_entry WHERE eventlog_entry.bucket = b.bucket ORDER BY eventlog_entry.seq LIMIT 1
) e;

-- name: Read :many
-- Takes entries of all buckets in turn, so that a busy bucket does not delay the others.
SELECT found.bucket, found.seq, found.data, coalesce(found.traces, '{}')::text[] AS traces
FROM (
    SELECT e.bucket, e.seq, e.data, e.traces, e.seq - wanted.behind AS turn,
           sum(length(e.data)) OVER (ORDER BY e.seq - wanted.behind, e.bucket) - length(e.data) AS before
    FROM (
        SELECT b.bucket, (@behind::bigint[])[array_position(@buckets::integer[], b.bucket)] AS behind
        FROM eventlog_bucket b WHERE b.bucket = ANY (@buckets::integer[])
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT x.bucket, x.seq, x.data, x.traces FROM eventlog_entry x
        WHERE x.bucket = wanted.bucket AND x.seq > wanted.behind ORDER BY x.seq LIMIT @max_rows::integer
    ) AS e
) AS found
WHERE found.before < @max_bytes::bigint
ORDER BY found.turn, found.bucket
LIMIT @max_rows;

-- name: Trim :execrows
DELETE FROM eventlog_entry WHERE (bucket, seq) IN (
    SELECT old.bucket, old.seq FROM eventlog_entry old
    JOIN (SELECT unnest(@buckets::integer[]) AS bucket, unnest(@positions::bigint[]) AS position) n ON n.bucket = old.bucket
    WHERE old.seq <= n.position LIMIT @max_rows
);
