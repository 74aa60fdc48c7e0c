-- name: Add :exec
INSERT INTO outbox (org_id, id, account_id, kind, data, at) VALUES (@org_id, @id, @account_id, @kind, @data, @at);

-- name: After :many
SELECT * FROM outbox WHERE org_id = @org_id AND seq > @after ORDER BY seq LIMIT @max_rows;

-- name: Trim :execrows
-- tenant: age alone decides, whoever they belong to
DELETE FROM outbox WHERE seq IN (SELECT o.seq FROM outbox o WHERE o.at < @before ORDER BY o.seq LIMIT @max_rows);
