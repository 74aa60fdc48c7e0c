-- name: OpenChain :exec
INSERT INTO audit_head (org_id, seq, hash) VALUES (@org_id, 0, '') ON CONFLICT DO NOTHING;

-- name: LockHead :one
SELECT seq, hash FROM audit_head WHERE org_id = @org_id FOR UPDATE;

-- name: MoveHead :exec
UPDATE audit_head SET seq = @seq, hash = @hash WHERE org_id = @org_id;

-- name: Insert :exec
INSERT INTO audit_entry (org_id, seq, id, at, actor_kind, actor_id, actor_label, action, target, request_id, ip_hash, changes, hash, key_id)
VALUES (@org_id, @seq, @id, @at, @actor_kind, @actor_id, @actor_label, @action, @target, @request_id, @ip_hash, @changes, @hash, @key_id);

-- name: Chain :many
SELECT * FROM audit_entry WHERE org_id = @org_id AND seq > @after ORDER BY seq LIMIT @max_rows;

-- name: Head :one
SELECT seq, hash FROM audit_head WHERE org_id = @org_id;

-- name: NextChain :one
-- tenant: verification and keying go through all orgs
-- An org counts if it has a head or an entry, so that neither can be hidden by removing the other.
SELECT n.org_id FROM (
    (SELECT h.org_id FROM audit_head h WHERE h.org_id > @after ORDER BY h.org_id LIMIT 1)
    UNION ALL (SELECT e.org_id FROM audit_entry e WHERE e.org_id > @after ORDER BY e.org_id LIMIT 1)
) n ORDER BY n.org_id LIMIT 1;

-- name: Rekey :exec
UPDATE audit_entry e SET hash = n.hash, key_id = @key_id, changes = n.changes::json
FROM (SELECT unnest(@seqs::bigint[]) AS seq, unnest(@hashes::bytea[]) AS hash, unnest(@changes::text[]) AS changes) n
WHERE e.org_id = @org_id AND e.seq = n.seq;

-- name: Heads :many
-- tenant: the heads of all orgs are anchored
SELECT * FROM audit_head WHERE org_id > @after ORDER BY org_id LIMIT @max_rows;

-- name: MarkAnchored :exec
UPDATE audit_head SET anchored = @anchored WHERE org_id = @org_id;

-- name: Unstreamed :many
-- tenant: the logs of all orgs are streamed
SELECT org_id, streamed FROM audit_head WHERE seq > streamed AND org_id > @after ORDER BY org_id LIMIT @max_rows;

-- name: MarkStreamed :exec
UPDATE audit_head SET streamed = greatest(streamed, @seq) WHERE org_id = @org_id;

-- name: StreamLag :one
-- tenant: the logs of all orgs are streamed
SELECT greatest(coalesce(extract(epoch FROM clock_timestamp() - min(e.at)), 0), 0)::float8 AS lag
FROM audit_head h CROSS JOIN LATERAL (
    SELECT a.at FROM audit_entry a WHERE a.org_id = h.org_id AND a.seq > h.streamed ORDER BY a.seq LIMIT 1
) e
WHERE h.seq > h.streamed;

-- name: PageOfAll :many
-- tenant: operators read the logs of all orgs
-- Ids are in the order of time, so a page costs what is on it, as long as what is asked for is not rare.
SELECT * FROM audit_entry
WHERE id < @before AND id >= @from_id AND at >= @since AND at < @until
    AND (@only_org::text = '' OR org_id = @only_org) AND (@action::text = '' OR action = @action) AND (@actor_id::text = '' OR actor_id = @actor_id)
    AND (@actor_kind::text = '' OR actor_kind = @actor_kind) AND (@target::text = '' OR target = @target)
ORDER BY id DESC LIMIT @max_rows;

-- name: Chosen :many
-- The first and the last number keep it to about the time that is asked for. The following queries have the same
-- parameters in the same order.
SELECT * FROM audit_entry
WHERE org_id = @org_id AND seq < @before AND seq >= @from_seq AND at >= @since AND at < @until
    AND (@action::text = '' OR action = @action) AND (@actor_id::text = '' OR actor_id = @actor_id) AND (@target::text = '' OR target = @target)
ORDER BY seq DESC LIMIT @max_rows;

-- name: ChosenByTarget :many
-- Chosen by the index of targets.
SELECT * FROM audit_entry
WHERE org_id = @org_id AND seq < @before AND seq >= @from_seq AND at >= @since AND at < @until
    AND (@action::text = '' OR action = @action) AND (@actor_id::text = '' OR actor_id = @actor_id) AND target = @target::text
ORDER BY seq DESC LIMIT @max_rows;

-- name: ChosenByActor :many
-- Chosen by the index of actors.
SELECT * FROM audit_entry
WHERE org_id = @org_id AND seq < @before AND seq >= @from_seq AND at >= @since AND at < @until
    AND (@action::text = '' OR action = @action) AND actor_id = @actor_id::text AND (@target::text = '' OR target = @target)
ORDER BY seq DESC LIMIT @max_rows;

-- name: ChosenByAction :many
-- Chosen by the index of actions.
SELECT * FROM audit_entry
WHERE org_id = @org_id AND seq < @before AND seq >= @from_seq AND at >= @since AND at < @until
    AND action = @action::text AND (@actor_id::text = '' OR actor_id = @actor_id) AND (@target::text = '' OR target = @target)
ORDER BY seq DESC LIMIT @max_rows;

-- name: FirstSince :one
SELECT seq FROM audit_entry WHERE org_id = @org_id AND at >= @at ORDER BY at LIMIT 1;

-- name: LastBefore :one
SELECT seq FROM audit_entry WHERE org_id = @org_id AND at < @at ORDER BY at DESC LIMIT 1;
