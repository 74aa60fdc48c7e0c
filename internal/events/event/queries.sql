-- name: After :many
SELECT org_id AS org, source, seq, at, tx, id, kind, body FROM event
WHERE org_id = @org_id AND source = @source AND seq > @after AND at >= @since
ORDER BY seq LIMIT @max_rows;

-- name: Next :many
-- The same where no sequence number is missing. The range tells the planner that it is little, also of a new day that has no statistics:
-- without them it would rather sort all that is behind.
SELECT org_id AS org, source, seq, at, tx, id, kind, body FROM event
WHERE org_id = @org_id AND source = @source AND seq > @after AND seq <= @until AND at >= @since
ORDER BY seq;

-- name: OrgAfter :many
-- Nothing is read of transactions that others may still commit before.
SELECT org_id AS org, source, seq, at, tx, id, kind, body FROM event
WHERE org_id = @org_id AND tx >= @after_tx AND (tx > @after_tx OR id > @after_id) AND at >= @since
    AND tx < (SELECT event_horizon())
ORDER BY tx, id LIMIT @max_rows;

-- name: Horizon :one
SELECT event_horizon()::bigint AS horizon;

-- name: Head :one
SELECT * FROM event_source WHERE org_id = @org_id AND source = @source;

-- name: LastPosition :one
-- The number of a source's last event and where it is in the org's stream; 0 if it is no longer stored.
SELECT s.last_seq, coalesce((
    SELECT e.tx FROM event e WHERE e.org_id = s.org_id AND e.source = s.source AND e.seq = s.last_seq AND e.at = s.last_at
), 0)::bigint AS tx
FROM event_source s WHERE s.org_id = @org_id AND s.source = @source;

-- name: LastBefore :one
-- The last event of a source up to a number that was stored before a position.
SELECT seq FROM event
WHERE org_id = @org_id AND source = @source AND seq <= @seq AND tx < @before_tx AND at >= @since
ORDER BY seq DESC LIMIT 1;

-- name: HeadsAmong :many
SELECT * FROM event_source WHERE org_id = @org_id AND source = ANY (@sources::text[]);

-- name: OldestBehind :many
-- When the first event behind a place of each source was stored.
SELECT s.source::text AS source, e.at
FROM (SELECT unnest(@sources::text[]) AS source, unnest(@seqs::bigint[]) AS seq) s
CROSS JOIN LATERAL (
    SELECT event.at FROM event
    WHERE event.org_id = @org_id AND event.source = s.source AND event.seq > s.seq AND event.at >= @since
    ORDER BY event.seq LIMIT 1
) e;

-- name: HeadsOf :many
-- tenant: the writer of a bucket loads whoever's sources it meets; the records name their orgs
SELECT * FROM event_source WHERE source = ANY (@sources::text[]);

-- name: HeadsChanged :many
-- tenant: the owner of a bucket looks at all that is in it
SELECT * FROM event_source WHERE bucket = @bucket AND last_at > @changed_after ORDER BY source;

-- name: Recent :many
-- tenant: the writer of a bucket loads whoever's sources it meets
-- What tells repeats of the last frames. The time keeps it to one or two partitions.
SELECT s.source::text AS source, e.upstream_id
FROM (SELECT unnest(@sources::text[]) AS source, unnest(@seqs::bigint[]) AS seq, unnest(@since::timestamptz[]) AS since) s
CROSS JOIN LATERAL (
    SELECT upstream_id, seq FROM event
    WHERE event.source = s.source AND event.seq > s.seq AND event.at >= s.since AND event.upstream_id <> ''
) e ORDER BY s.source, e.seq;

-- name: StoredKeys :many
-- tenant: the writer of a bucket looks up the records that it is about to store, whoever owns them
-- LIMIT makes the planner look up one key at a time in the index, and the time keeps it to few partitions.
SELECT k.source::text AS source, k.upstream_id::text AS upstream_id
FROM (SELECT unnest(@sources::text[]) AS source, unnest(@upstream_ids::text[]) AS upstream_id, unnest(@since::timestamptz[]) AS since) k
CROSS JOIN LATERAL (
    SELECT FROM event
    WHERE hashtextextended(event.upstream_id, 0) = hashtextextended(k.upstream_id, 0) AND event.upstream_id <> ''
        AND event.upstream_id = k.upstream_id AND event.source = k.source AND event.at >= k.since
    LIMIT 1
) e;

-- name: SetWatermark :exec
INSERT INTO event_source (org_id, source, bucket, last_seq, last_at, watermark) VALUES (@org_id, @source, @bucket, 0, @at, @watermark)
ON CONFLICT (source) DO UPDATE SET watermark = excluded.watermark
WHERE event_source.org_id = excluded.org_id AND event_source.watermark IS NULL;

-- name: Oldest :one
-- One statement, because it sees one moment: with two, an event stored between them would count as one that can no longer be read.
SELECT coalesce(
    (SELECT min(e.seq) FROM event e WHERE e.org_id = @org_id AND e.source = @source AND e.at >= @since),
    (SELECT s.last_seq + 1 FROM event_source s WHERE s.org_id = @org_id AND s.source = @source),
    1)::bigint AS seq;

-- name: Find :one
SELECT org_id AS org, source, seq, at, tx, id, kind, body FROM event
WHERE org_id = @org_id AND source = @source AND id = @id AND at >= @since AND at < @until;

-- name: SeqAt :one
SELECT coalesce(max(seq), 0)::bigint AS seq FROM event WHERE org_id = @org_id AND source = @source AND at <= @at;

-- name: Claim :one
-- tenant: buckets are work, not data
-- A lease of an earlier generation claims nothing: its holder remembers what the database may have lost.
INSERT INTO event_bucket (bucket, epoch, log_epoch, committed, last_at)
SELECT @bucket, @epoch, '', 0, 'epoch' WHERE @epoch::bigint >> 24 = (SELECT first_epoch() >> 24)
ON CONFLICT (bucket) DO UPDATE SET epoch = excluded.epoch WHERE event_bucket.epoch <= excluded.epoch
RETURNING log_epoch, committed, last_at;

-- name: Advance :one
-- tenant: buckets are work, not data
-- Moves the buckets that are still held under their epoch, and returns their number and the position for the transaction's events.
WITH g AS MATERIALIZED (
    SELECT first_epoch() AS first_epoch
), moved AS (
    UPDATE event_bucket SET committed = n.committed, log_epoch = n.log_epoch, last_at = GREATEST(last_at, @at)
    FROM (SELECT unnest(@buckets::smallint[]) AS bucket, unnest(@epochs::bigint[]) AS epoch, unnest(@log_epochs::text[]) AS log_epoch,
        unnest(@positions::bigint[]) AS committed) n
    WHERE event_bucket.bucket = n.bucket AND event_bucket.epoch = n.epoch AND event_bucket.epoch >= (SELECT g.first_epoch FROM g)
    RETURNING event_bucket.bucket
)
SELECT (SELECT count(*) FROM moved) AS moved, coalesce(event_tx((SELECT g.first_epoch FROM g)), 0)::bigint AS tx;

-- name: SaveHeads :execrows
-- tenant: each row has its own org
-- A source whose purge began since it was loaded is left alone: its writer must load it again.
INSERT INTO event_source (org_id, source, bucket, last_seq, last_at, watermark, epoch, closed, purged_seq, newest_frame_at)
SELECT unnest(@org_ids::text[]), unnest(@sources::text[]), unnest(@buckets::smallint[]), unnest(@seqs::bigint[]), unnest(@ats::timestamptz[]),
    nullif(unnest(@watermarks::text[]), ''), unnest(@epochs::bigint[]), unnest(@closes::boolean[]), nullif(unnest(@purges::bigint[]), -1),
    nullif(unnest(@newest_frames::timestamptz[]), 'epoch')
ON CONFLICT (source) DO UPDATE SET last_seq = excluded.last_seq, last_at = excluded.last_at,
    watermark = coalesce(nullif(excluded.watermark, ''), event_source.watermark), epoch = excluded.epoch, closed = excluded.closed,
    newest_frame_at = excluded.newest_frame_at
WHERE (event_source.purged_seq IS NULL) = (excluded.purged_seq IS NULL);

-- name: BeginPurge :one
INSERT INTO event_source (org_id, source, bucket, last_seq, last_at, purged_seq) VALUES (@org_id, @source, @bucket, 0, @at, 0)
ON CONFLICT (source) DO UPDATE SET purged_seq = coalesce(event_source.purged_seq, 0), watermark = NULL
WHERE event_source.org_id = excluded.org_id
RETURNING purged_seq;

-- name: ToPurge :many
SELECT at, seq, id, kind FROM event WHERE org_id = @org_id AND source = @source AND seq > @after ORDER BY seq LIMIT @max_rows;

-- name: PurgeEvents :exec
UPDATE event SET upstream_id = '', body = n.body
FROM (SELECT unnest(@seqs::bigint[]) AS seq, unnest(@ats::timestamptz[]) AS at, unnest(@bodies::bytea[]) AS body) n
WHERE event.org_id = @org_id AND event.source = @source AND event.seq = n.seq AND event.at = n.at;

-- name: OrgEventsNaming :many
-- Events of the org itself about connecting an account. They are few, and never sealed.
SELECT at, seq, id, kind, body FROM event
WHERE org_id = @org_id AND source = @org_id::text AND kind LIKE 'connect.%'
    AND EXISTS (SELECT 1 FROM unnest(@names::bytea[]) AS n (name) WHERE position(n.name IN event.body) > 0)
ORDER BY seq LIMIT @max_rows;

-- name: MovePurge :exec
UPDATE event_source SET purged_seq = @purged_seq WHERE org_id = @org_id AND source = @source;

-- name: Tags :one
-- tenant: it is about the database
SELECT generation_tags()::integer[] AS tags;

-- name: Progress :one
-- tenant: buckets are work, not data
SELECT log_epoch, committed FROM event_bucket WHERE bucket = @bucket;

-- name: AllProgress :many
-- tenant: buckets are work, not data
SELECT bucket, log_epoch, committed FROM event_bucket;

-- name: Bury :exec
-- tenant: each row has its own org
INSERT INTO event_dead_letter (bucket, org_id, source, kind, reason, record)
VALUES (@bucket, nullif(@org_id::text, ''), nullif(@source::text, ''), nullif(@kind::text, ''), @reason, @record);

-- name: Rebury :exec
-- tenant: a dead letter is the operators' until it is stored
UPDATE event_dead_letter SET requeued = false, reason = @reason WHERE id = @id;

-- name: TakeLetters :exec
-- tenant: a dead letter is the operators' until it is stored
DELETE FROM event_dead_letter WHERE id = ANY (@ids::bigint[]);

-- name: RequeuedLetters :many
-- tenant: the writer of a bucket stores whoever's records are in it
SELECT id, record FROM event_dead_letter WHERE requeued AND bucket = ANY (@buckets::smallint[]) ORDER BY id LIMIT @max_rows;

-- name: DeadLetters :many
-- tenant: for operators
SELECT id, at, coalesce(org_id, '')::text AS org_id, coalesce(source, '')::text AS source, coalesce(kind, '')::text AS kind, reason, requeued,
    length(record)::integer AS size
FROM event_dead_letter WHERE id < @before ORDER BY id DESC LIMIT @max_rows;

-- name: RequeueLetter :one
-- tenant: for operators
UPDATE event_dead_letter SET requeued = true WHERE id = @id
RETURNING id, at, coalesce(org_id, '')::text AS org_id, coalesce(source, '')::text AS source, coalesce(kind, '')::text AS kind, reason, requeued,
    length(record)::integer AS size;

-- name: DeleteLetter :one
-- tenant: for operators
DELETE FROM event_dead_letter WHERE id = @id
RETURNING id, at, coalesce(org_id, '')::text AS org_id, coalesce(source, '')::text AS source, coalesce(kind, '')::text AS kind, reason, requeued,
    length(record)::integer AS size;

-- name: DeleteLettersOf :exec
DELETE FROM event_dead_letter WHERE org_id = @org_id::text AND source = @source::text;

-- name: ExpireLetters :exec
-- tenant: the age of all of them
DELETE FROM event_dead_letter WHERE at < now() - @kept::interval;

-- name: OrgBefore :many
-- An org's events from the newest. Bodies are read of those kinds only that are wanted.
SELECT org_id AS org, source, seq, at, tx, id, kind, (CASE WHEN @every::boolean OR kind = ANY (@kinds::text[]) THEN body END)::bytea AS body FROM event
WHERE org_id = @org_id AND tx <= @before_tx AND (tx < @before_tx OR id < @before_id) AND at >= @since AND at <= @until
    AND tx < (SELECT event_horizon())
ORDER BY tx DESC, id DESC LIMIT @max_rows;

-- name: SourcesBefore :many
-- The same of some sources: each is read from its own end, however much others have.
SELECT e.org_id AS org, e.source, e.seq, e.at, e.tx, e.id, e.kind, (CASE WHEN @every::boolean OR e.kind = ANY (@kinds::text[]) THEN e.body END)::bytea AS body
FROM unnest(@sources::text[]) AS s (source)
CROSS JOIN LATERAL (
    SELECT * FROM event
    WHERE event.org_id = @org_id AND event.source = s.source AND event.tx <= @before_tx AND (event.tx < @before_tx OR event.id < @before_id) AND event.at >= @since AND event.at <= @until
        AND event.tx < (SELECT event_horizon())
    ORDER BY event.seq DESC LIMIT @max_rows
) e
ORDER BY e.tx DESC, e.id DESC LIMIT @max_rows;

-- name: FindAny :many
-- Events of whichever source. The times keep it to one or two partitions.
SELECT org_id AS org, source, seq, at, tx, id, kind, body FROM event
WHERE org_id = @org_id AND id = ANY (@ids::text[]) AND at >= @since AND at < @until;

-- name: OrgWaiting :many
-- How many of the first events after a position, and until a time, are of each kind and source, and when the first was stored.
SELECT e.source, e.kind, count(*) AS events, min(e.at)::timestamptz AS first_at FROM (
    SELECT source, kind, at FROM event WHERE org_id = @org_id AND tx >= @after_tx AND (tx > @after_tx OR id > @after_id) AND at >= @since AND at <= @until
    ORDER BY tx, id LIMIT @max_rows
) e
GROUP BY e.source, e.kind;
