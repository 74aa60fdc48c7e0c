-- name: Add :exec
INSERT INTO outbox (org_id, id, account_id, kind, data, at, bucket, of_user_id, reference_id, traceparent)
VALUES (@org_id, @id, @account_id, @kind, @data, @at, @bucket, @of_user_id, @reference_id, nullif(@traceparent::text, ''));

-- name: After :many
SELECT org_id AS org, id, seq, account_id AS account, kind, of_user_id, reference_id, data, at, coalesce(traceparent, '') AS traceparent FROM outbox
WHERE org_id = @org_id AND seq > @after ORDER BY seq LIMIT @max_rows;

-- name: Waiting :many
-- tenant: the owner of a bucket takes the events of all orgs in it
SELECT org_id AS org, id, seq, account_id AS account, kind, of_user_id, reference_id, data, at, coalesce(traceparent, '') AS traceparent FROM outbox
WHERE bucket = ANY (@buckets::smallint[]) ORDER BY seq LIMIT @max_rows;

-- name: Taken :execrows
-- tenant: the owner of a bucket has stored them
DELETE FROM outbox WHERE seq = ANY (@seqs::bigint[]);

-- name: Homeless :many
-- tenant: written by a version without buckets
SELECT seq, org_id, account_id FROM outbox WHERE bucket IS NULL ORDER BY seq LIMIT @max_rows;

-- name: Settle :exec
-- tenant: written by a version without buckets
UPDATE outbox SET bucket = @bucket WHERE seq = @seq;

-- name: Pending :one
SELECT EXISTS (SELECT 1 FROM outbox WHERE org_id = @org_id AND account_id = @account_id);

-- name: Backlog :one
-- tenant: metrics count the events of all orgs
SELECT count(*) AS events, coalesce(extract(epoch FROM now() - min(at)), 0)::float8 AS oldest_seconds FROM outbox;
