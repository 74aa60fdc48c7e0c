-- name: Position :one
-- The first call stores the position from which everything is sent.
WITH first AS (
    INSERT INTO usage_webhook (day, after_org) VALUES (@first_day, '') ON CONFLICT DO NOTHING RETURNING day, after_org
)
SELECT day, after_org FROM first UNION ALL SELECT day, after_org FROM usage_webhook LIMIT 1;

-- name: Move :exec
UPDATE usage_webhook SET day = @day, after_org = @after_org;
