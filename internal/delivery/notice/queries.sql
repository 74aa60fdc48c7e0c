-- name: Add :exec
-- A subject that was told before waits again, if again is set.
INSERT INTO notice (org_id, kind, subject, data, at) VALUES (@org_id, @kind, @subject, @data, @now)
ON CONFLICT (org_id, kind, subject) DO UPDATE SET data = excluded.data, at = excluded.at, told_at = NULL
WHERE @again::boolean AND notice.told_at IS NOT NULL;

-- name: Due :many
-- tenant: the notices of all organisations are sent alike
SELECT DISTINCT n.org_id, n.kind FROM notice AS n
WHERE n.told_at IS NULL AND (n.org_id, n.kind) > (@after_org::text, @after_kind::text)
    AND NOT EXISTS (SELECT FROM notice_turn AS t WHERE t.org_id = n.org_id AND t.kind = n.kind AND t.at > @since)
ORDER BY n.org_id, n.kind LIMIT @max_rows;

-- name: Waiting :many
SELECT subject, data FROM notice WHERE org_id = @org_id AND kind = @kind AND told_at IS NULL ORDER BY at, subject LIMIT @max_rows;

-- name: ToldAt :many
SELECT subject, data FROM notice WHERE org_id = @org_id AND kind = @kind AND told_at = @told_at ORDER BY at, subject;

-- name: TakeTurn :execrows
-- Nothing if the organisation was told of the kind after since.
INSERT INTO notice_turn (org_id, kind, at) VALUES (@org_id, @kind, @now)
ON CONFLICT (org_id, kind) DO UPDATE SET at = excluded.at WHERE notice_turn.at <= @since;

-- name: MarkTold :exec
UPDATE notice SET told_at = @now WHERE org_id = @org_id AND kind = @kind AND subject = ANY (@subjects::text[]) AND told_at IS NULL;

-- name: Trim :execrows
-- tenant: rows of all orgs expire alike
DELETE FROM notice WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM notice AS old WHERE old.told_at <= @before ORDER BY old.told_at LIMIT @max_rows));

-- name: Setting :one
SELECT slack, slack_version, slack_host, kinds, locale FROM notice_setting WHERE org_id = @org_id;

-- name: PutSetting :exec
INSERT INTO notice_setting (org_id, slack, slack_version, slack_host, kinds, locale)
VALUES (@org_id, @slack, @slack_version, @slack_host, @kinds, @locale)
ON CONFLICT (org_id) DO UPDATE SET slack = excluded.slack, slack_version = excluded.slack_version, slack_host = excluded.slack_host,
    kinds = excluded.kinds, locale = excluded.locale;

-- name: DeleteSetting :exec
DELETE FROM notice_setting WHERE org_id = @org_id;

-- name: Unsubscribe :exec
INSERT INTO notice_unsubscribed (org_id, address, at) VALUES (@org_id, @address, @now) ON CONFLICT DO NOTHING;

-- name: Subscribe :exec
DELETE FROM notice_unsubscribed WHERE org_id = @org_id AND address = @address;

-- name: Unsubscribed :many
SELECT address FROM notice_unsubscribed WHERE org_id = @org_id;
