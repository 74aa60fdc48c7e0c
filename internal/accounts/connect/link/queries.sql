-- name: Insert :exec
INSERT INTO connect_session (
    org_id, id, token_hash, status, platform, site, kinds, reference_id, label, region, account_id, return_url, allowed_origins, locale, remember,
    attempts, active_attempt, connected_account, created_at, updated_at, expires_at, due_at, receipt_to
) VALUES (
    @org_id, @id, @token_hash, 'open', @platform, @site, @kinds, @reference_id, @label, @region, @account_id, @return_url, @allowed_origins, @locale, @remember,
    '{}', '', '', @now, @now, @expires_at, @expires_at, @receipt_to
);

-- name: Get :one
SELECT * FROM connect_session WHERE org_id = @org_id AND id = @id;

-- name: Lock :one
SELECT * FROM connect_session WHERE org_id = @org_id AND id = @id FOR UPDATE;

-- name: ByToken :one
-- tenant: the token is the capability, and says whose the session is
SELECT * FROM connect_session WHERE token_hash = @token_hash;

-- name: OpenOfAccount :many
SELECT * FROM connect_session
WHERE org_id = @org_id AND account_id = @account_id AND account_id <> '' AND finished_at IS NULL AND expires_at > @after
ORDER BY id DESC LIMIT 5;

-- name: Save :exec
UPDATE connect_session
SET status = @status, attempts = @attempts, active_attempt = @active_attempt, connected_account = @connected_account,
    updated_at = @updated_at, finished_at = sqlc.narg(finished_at), due_at = @due_at, opened_at = @opened_at, browsers = @browsers,
    bound_at = @bound_at, browser_name = @browser_name, browser_system = @browser_system, others = @others,
    receipt_to = CASE WHEN sqlc.narg(finished_at)::timestamptz IS NULL THEN receipt_to END
WHERE org_id = @org_id AND id = @id;

-- name: Find :one
-- tenant: the browser's secret is the capability; it is checked against the session that is found
SELECT * FROM connect_session WHERE id = @id;

-- name: List :many
SELECT * FROM connect_session
WHERE org_id = @org_id AND id < @before
    AND (
        @status::text = '' OR status = @status AND (@status NOT IN ('open', 'in_progress') OR active_attempt <> '' OR expires_at > @now)
        -- One whose time is over is expired from that moment on, though nobody has looked at it yet.
        OR (@status = 'expired' AND status IN ('open', 'in_progress') AND active_attempt = '' AND expires_at <= @now)
    )
    AND (@reference_id::text = '' OR reference_id = @reference_id)
    AND (sqlc.narg(accounts)::text[] IS NULL OR account_id = ANY (sqlc.narg(accounts)))
ORDER BY id DESC LIMIT @max_rows;

-- name: CountOpened :one
SELECT count(*) AS made, count(opened_at) AS opened FROM connect_session
WHERE org_id = @org_id AND id >= @first::text AND id < @last::text
    AND (sqlc.narg(accounts)::text[] IS NULL OR account_id = ANY (sqlc.narg(accounts)));

-- name: Due :many
-- tenant: time alone decides, whoever they belong to
SELECT * FROM connect_session WHERE due_at <= @now ORDER BY due_at LIMIT @max_rows FOR UPDATE SKIP LOCKED;

-- name: Forget :exec
DELETE FROM connect_session WHERE org_id = @org_id AND id = @id;

-- name: GetPage :one
SELECT brand_light, brand_dark, scheme, allowed_origins, help_url, logo_tag FROM connect_page WHERE org_id = @org_id;

-- name: GetLogo :one
SELECT logo, logo_tag FROM connect_page WHERE org_id = @org_id;

-- name: PutLogo :exec
INSERT INTO connect_page (org_id, brand_light, brand_dark, scheme, allowed_origins, help_url, updated_at, logo, logo_tag)
VALUES (@org_id, '', '', @scheme, '{}', '', @now, sqlc.narg(logo), @logo_tag)
ON CONFLICT (org_id) DO UPDATE SET logo = excluded.logo, logo_tag = excluded.logo_tag, updated_at = excluded.updated_at;

-- name: PutPage :exec
INSERT INTO connect_page (org_id, brand_light, brand_dark, scheme, allowed_origins, help_url, updated_at)
VALUES (@org_id, @brand_light, @brand_dark, @scheme, @allowed_origins, @help_url, @now)
ON CONFLICT (org_id) DO UPDATE
SET brand_light = excluded.brand_light, brand_dark = excluded.brand_dark, scheme = excluded.scheme,
    allowed_origins = excluded.allowed_origins, help_url = excluded.help_url, updated_at = excluded.updated_at;

-- name: ForgetAccount :exec
-- What a session has of the account that it connected or was made for, apart from ids. It stays until its retention ends.
UPDATE connect_session SET reference_id = '', label = '', site = '', browser_name = '', browser_system = '', receipt_to = NULL
WHERE org_id = @org_id AND (connected_account = @account_id::text OR account_id = @account_id::text);
