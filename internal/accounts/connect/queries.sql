-- name: Insert :exec
INSERT INTO attempt (org_id, id, version, kind, state, progress, login, account_id, reconnect, session_id, platform, site, site_root, site_id,
    label, region, reference, metadata, remember, named, return_url, step, step_seq, step_at, secrets, secrets_version, consent, started_by, created_at, updated_at, deadline, expires_at, wake_at)
VALUES (@org_id, @id, @version, @kind, @state, @progress, @login, @account_id, @reconnect, @session_id, @platform, @site, @site_root, @site_id,
    @label, @region, @reference, @metadata, @remember, @named, @return_url, @step, @step_seq, @step_at, @secrets, @secrets_version, @consent, @started_by, @created_at, @updated_at, @deadline, @expires_at, @wake_at);

-- name: Get :one
SELECT * FROM attempt WHERE org_id = @org_id AND id = @id;

-- name: Lock :one
SELECT * FROM attempt WHERE org_id = @org_id AND id = @id FOR UPDATE;

-- name: Find :one
-- tenant: whoever has the link's token has no key; the token is checked against the org that is found
SELECT * FROM attempt WHERE id = @id;

-- name: Open :one
SELECT * FROM attempt WHERE org_id = @org_id AND login = @login AND finished_at IS NULL FOR UPDATE;

-- name: OpenOfAccount :many
SELECT * FROM attempt WHERE org_id = @org_id AND account_id = @account_id AND finished_at IS NULL FOR UPDATE;

-- name: LockDue :one
-- tenant: time alone decides what is due, whoever it belongs to
SELECT * FROM attempt WHERE wake_at <= @now ORDER BY wake_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: Update :exec
UPDATE attempt SET version = @version, state = @state, progress = @progress, account_id = @account_id, channel = @channel, available = @available,
    mask = @mask, challenge_sent = @challenge_sent, challenge_expires_at = @challenge_expires_at, challenges = @challenges, submissions = @submissions,
    resends = @resends, resend_at = @resend_at, qr_expires_at = @qr_expires_at, step = @step, step_seq = @step_seq, step_at = @step_at, target = @target, tries = @tries,
    retry_at = @retry_at, poll_at = @poll_at, lease = @lease, lease_end = @lease_end, sent = @sent, secrets = @secrets,
    secrets_version = @secrets_version, input = @input, failure_code = @failure_code, failure_after = @failure_after, upstream_code = @upstream_code, upstream_text = @upstream_text,
    upstream_message = @upstream_message, updated_at = @updated_at, deadline = @deadline, finished_at = @finished_at, wake_at = @wake_at
WHERE org_id = @org_id AND id = @id;

-- name: SetAuthorization :exec
UPDATE attempt SET oauth_state = @oauth_state, oauth_browser = @oauth_browser, consent = @consent WHERE org_id = @org_id AND id = @id;

-- name: Renew :execrows
UPDATE attempt SET lease_end = @lease_end, wake_at = least(@lease_end, deadline) WHERE org_id = @org_id AND id = @id AND lease = @lease AND step_seq = @step_seq;

-- name: MarkSent :execrows
UPDATE attempt SET sent = true WHERE org_id = @org_id AND id = @id AND lease = @lease AND step_seq = @step_seq;

-- name: List :many
SELECT * FROM attempt
WHERE org_id = @org_id AND id < @before
    AND (@state::text = '' OR state = @state) AND (@kind::text = '' OR kind = @kind) AND (@reference::text = '' OR reference = @reference)
    -- An account is told of only once it is certain.
    AND (sqlc.narg(accounts)::text[] IS NULL OR (account_id = ANY (sqlc.narg(accounts)) AND (reconnect OR state = 'completed_success')))
ORDER BY id DESC LIMIT @max_rows;

-- name: Unshredded :many
-- tenant: every ended attempt's data key is to go, whoever it belonged to
SELECT org_id, id FROM attempt WHERE finished_at < @before AND NOT shredded ORDER BY finished_at LIMIT @max_rows;

-- name: Shredded :exec
-- It happens to every attempt once after its end, so this is where the month counts how it ended.
WITH done AS (
    UPDATE attempt SET shredded = true WHERE org_id = @org_id AND id = @id AND NOT shredded
    RETURNING kind, state, finished_at
)
INSERT INTO connect_month (org_id, month, succeeded, failed)
SELECT @org_id, date_trunc('month', finished_at, 'UTC'), (state = 'completed_success')::int, (state = 'completed_failed')::int
FROM done WHERE kind <> 'reauth' AND finished_at IS NOT NULL
ON CONFLICT (org_id, month) DO UPDATE SET succeeded = connect_month.succeeded + excluded.succeeded, failed = connect_month.failed + excluded.failed;

-- name: Forget :execrows
-- tenant: age alone decides, whoever they belong to
DELETE FROM attempt WHERE id IN (SELECT a.id FROM attempt a WHERE a.finished_at < @before AND a.shredded ORDER BY a.finished_at LIMIT @max_rows);

-- name: LockGuard :one
-- tenant: a login is guarded over all orgs together
INSERT INTO login_guard (login, level, at) VALUES (@login, 0, @now)
ON CONFLICT (login) DO UPDATE SET login = excluded.login
RETURNING level, at;

-- name: SetGuard :exec
-- tenant: a login is guarded over all orgs together
UPDATE login_guard SET level = @level, at = @now WHERE login = @login;

-- name: ForgetGuards :exec
-- tenant: age alone decides
DELETE FROM login_guard WHERE at < @before;

-- name: CountOutcome :exec
INSERT INTO connect_outcome (org_id, hour, tried, refused) VALUES (@org_id, @hour, 1, @refused)
ON CONFLICT (org_id, hour) DO UPDATE SET tried = connect_outcome.tried + 1, refused = connect_outcome.refused + excluded.refused;

-- name: Outcomes :one
SELECT coalesce(sum(tried), 0)::bigint AS tried, coalesce(sum(refused), 0)::bigint AS refused
FROM connect_outcome WHERE org_id = @org_id AND hour >= @since;

-- name: ForgetOutcomes :exec
-- tenant: age alone decides
DELETE FROM connect_outcome WHERE hour < @before;

-- name: CountStarted :exec
INSERT INTO connect_month (org_id, month, started) VALUES (@org_id, @month, 1)
ON CONFLICT (org_id, month) DO UPDATE SET started = connect_month.started + 1;

-- name: Month :one
SELECT started, succeeded, failed FROM connect_month WHERE org_id = @org_id AND month = @month;

-- name: Funnel :many
-- How far creators came, by the way they took. All attempts of one link are one creator's; one without a link stands for itself. Ids begin
-- with the time, so the primary key has those of a time together.
WITH flow AS (
    SELECT coalesce(nullif(a.session_id, ''), a.id) AS name, bool_or(a.session_id <> '') AS linked, max(a.kind) FILTER (WHERE a.state = 'completed_success') AS won,
        (array_agg(a.kind ORDER BY a.id DESC))[1] AS kind, bool_or(a.challenges > 0 OR a.kind = 'mobile_app') AS challenged,
        bool_or(a.state = 'completed_success') AS connected, bool_and(a.finished_at IS NOT NULL) AS over
    FROM attempt a
    WHERE a.org_id = @org_id AND a.id >= @first::text AND a.id < @last::text AND a.kind <> 'reauth'
        AND (sqlc.narg(accounts)::text[] IS NULL OR (a.account_id = ANY (sqlc.narg(accounts)) AND (a.reconnect OR a.state = 'completed_success')))
    GROUP BY 1
)
SELECT coalesce(flow.won, flow.kind)::text AS kind, count(*) AS begun, count(*) FILTER (WHERE flow.linked) AS linked, count(*) FILTER (WHERE flow.challenged) AS challenged,
    count(*) FILTER (WHERE flow.connected) AS connected, count(*) FILTER (WHERE flow.over AND NOT flow.connected) AS failed
FROM flow GROUP BY 1;

-- name: FailureReasons :many
SELECT failure_code, count(*) AS attempts FROM attempt
WHERE org_id = @org_id AND id >= @first::text AND id < @last::text AND kind <> 'reauth' AND state = 'completed_failed'
    AND (sqlc.narg(accounts)::text[] IS NULL OR (account_id = ANY (sqlc.narg(accounts)) AND reconnect))
GROUP BY failure_code ORDER BY 2 DESC, 1 LIMIT 20;

-- name: ForgetAccount :exec
-- What an attempt has of its account, apart from ids. The attempts stay until their retention ends.
UPDATE attempt SET label = '', reference = '', metadata = '{}', mask = '', site = '', site_root = '', site_id = '', login = NULL, upstream_message = ''
WHERE org_id = @org_id AND account_id = @account_id AND finished_at IS NOT NULL;

-- name: CountOpen :many
-- tenant: metrics count the attempts of all orgs
SELECT state, count(*) AS attempts FROM attempt WHERE finished_at IS NULL GROUP BY state;
