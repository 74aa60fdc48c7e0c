-- name: InsertToken :exec
INSERT INTO stream_token (org_id, hash, account_id, key_id, expires_at) VALUES (@org_id, @hash, @account_id, @key_id, @expires_at);

-- name: TakeToken :one
-- tenant: the hash of the token is the proof of which org it belongs to
DELETE FROM stream_token WHERE hash = @hash AND account_id = @account_id AND expires_at > @now RETURNING *;

-- name: ForgetTokens :exec
-- tenant: tokens that are over, whoever made them
DELETE FROM stream_token WHERE expires_at <= @now;
