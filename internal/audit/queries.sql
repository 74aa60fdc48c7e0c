-- name: OpenChain :exec
INSERT INTO audit_head (org_id, seq, hash) VALUES (@org_id, 0, '') ON CONFLICT DO NOTHING;

-- name: LockHead :one
SELECT seq, hash FROM audit_head WHERE org_id = @org_id FOR UPDATE;

-- name: MoveHead :exec
UPDATE audit_head SET seq = @seq, hash = @hash WHERE org_id = @org_id;

-- name: Insert :exec
INSERT INTO audit_entry (org_id, seq, id, at, actor_kind, actor_id, actor_label, action, target, request_id, ip_hash, changes, hash)
VALUES (@org_id, @seq, @id, @at, @actor_kind, @actor_id, @actor_label, @action, @target, @request_id, @ip_hash, @changes, @hash);

-- name: Page :many
SELECT * FROM audit_entry WHERE org_id = @org_id AND seq < @before ORDER BY seq DESC LIMIT @max_rows;

-- name: PageOf :many
SELECT * FROM audit_entry WHERE org_id = @org_id AND target = @target AND seq < @before ORDER BY seq DESC LIMIT @max_rows;

-- name: Chain :many
SELECT * FROM audit_entry WHERE org_id = @org_id AND seq > @after ORDER BY seq LIMIT @max_rows;

-- name: Head :one
SELECT seq, hash FROM audit_head WHERE org_id = @org_id;
