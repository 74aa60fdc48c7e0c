-- name: Insert :exec
INSERT INTO account (org_id, id, platform, site, site_root, site_id, credentials, upstream_id, label, state, state_changed_at, username, display_name,
    avatar_url, region, reference_id, metadata, remember_credentials, created_at, session_version, sealed_version, sign_in, session_expires_at, warn_at,
    attempt_id, attempt_kind)
VALUES (@org_id, @id, @platform, @site, @site_root, @site_id, @credentials, @upstream_id, @label, @state, @now, @username, @display_name,
    @avatar_url, @region, @reference_id, @metadata, @remember_credentials, @now, 1, 1, 1, @session_expires_at, @warn_at,
    @attempt_id, @attempt_kind);

-- name: InsertHealth :exec
INSERT INTO account_health (org_id, account_id, shard, probe_at, last_seen_at, last_checked_at, goods)
VALUES (@org_id, @account_id, @shard, @probe_at, @last_seen_at, @last_checked_at, @goods);

-- name: Get :one
SELECT sqlc.embed(account), sqlc.embed(account_health)
FROM account JOIN account_health ON account_health.org_id = account.org_id AND account_health.account_id = account.id
WHERE account.org_id = @org_id AND account.id = @id AND account.disconnecting_at IS NULL;

-- name: Lock :one
SELECT sqlc.embed(account), sqlc.embed(account_health)
FROM account JOIN account_health ON account_health.org_id = account.org_id AND account_health.account_id = account.id
WHERE account.org_id = @org_id AND account.id = @id AND account.disconnecting_at IS NULL
FOR UPDATE OF account;

-- name: WithSession :one
SELECT sqlc.embed(account), sqlc.embed(account_health), account_secret.sealed
FROM account JOIN account_health ON account_health.org_id = account.org_id AND account_health.account_id = account.id
LEFT JOIN account_secret ON account_secret.org_id = account.org_id AND account_secret.account_id = account.id AND account_secret.purpose = 'session'
WHERE account.org_id = @org_id AND account.id = @id AND account.disconnecting_at IS NULL;

-- name: Changed :many
-- tenant: a node has accounts of all orgs in memory
SELECT id, session_version, version_at::timestamptz AS version_at FROM account
WHERE (version_at, id) > (@after_time::timestamptz, @after_id::text) ORDER BY version_at, id LIMIT @max_rows;

-- name: VersionClock :one
-- tenant: it is the same for all orgs
SELECT clock_timestamp()::timestamptz AS now;

-- name: ByUpstream :one
SELECT id FROM account
WHERE org_id = @org_id AND platform = @platform AND site_id = @site_id AND upstream_id = @upstream_id AND disconnecting_at IS NULL;

-- name: Platform :one
SELECT platform FROM account WHERE org_id = @org_id AND id = @id AND disconnecting_at IS NULL;

-- name: Page :many
SELECT sqlc.embed(account), sqlc.embed(account_health)
FROM account JOIN account_health ON account_health.org_id = account.org_id AND account_health.account_id = account.id
WHERE account.org_id = @org_id AND account.id > @after AND account.disconnecting_at IS NULL
    AND (sqlc.narg(states)::text[] IS NULL OR account.state = ANY (sqlc.narg(states))) AND (@reference_id::text = '' OR account.reference_id = @reference_id)
    AND (@label::text = '' OR account.label = @label) AND (@platform::text = '' OR account.platform = @platform)
    AND (sqlc.narg(among)::text[] IS NULL OR account.id = ANY (sqlc.narg(among)))
    AND account_matches(@query::text, account.label, account.username, account.display_name, account.reference_id, account.id, account.upstream_id)
ORDER BY account.id LIMIT @max_rows;

-- name: Sorted :many
-- Page in another order: by label, or the last seen first. An org's accounts are few enough to be sorted each time.
SELECT sqlc.embed(account), sqlc.embed(account_health)
FROM account JOIN account_health ON account_health.org_id = account.org_id AND account_health.account_id = account.id
WHERE account.org_id = @org_id AND account.disconnecting_at IS NULL
    AND (sqlc.narg(states)::text[] IS NULL OR account.state = ANY (sqlc.narg(states))) AND (@reference_id::text = '' OR account.reference_id = @reference_id)
    AND (@label::text = '' OR account.label = @label) AND (@platform::text = '' OR account.platform = @platform)
    AND (sqlc.narg(among)::text[] IS NULL OR account.id = ANY (sqlc.narg(among)))
    AND account_matches(@query::text, account.label, account.username, account.display_name, account.reference_id, account.id, account.upstream_id)
    AND CASE WHEN @by_label::boolean THEN (lower(account.label), account.id) > (lower(@after_label::text), @after::text)
        ELSE coalesce(account_health.last_seen_at, '0001-01-01 00:00:00+00') < @after_seen::timestamptz
            OR (coalesce(account_health.last_seen_at, '0001-01-01 00:00:00+00') = @after_seen::timestamptz AND account.id > @after::text)
    END
ORDER BY CASE WHEN @by_label THEN lower(account.label) END, CASE WHEN NOT @by_label THEN coalesce(account_health.last_seen_at, '0001-01-01 00:00:00+00') END DESC,
    account.id
LIMIT @max_rows;

-- name: Count :one
SELECT count(*) FROM account WHERE org_id = @org_id AND disconnecting_at IS NULL;

-- name: CountByState :many
-- Counts the accounts that Page would list with any state.
SELECT account.state, count(*) AS accounts FROM account
WHERE account.org_id = @org_id AND account.disconnecting_at IS NULL
    AND (@reference_id::text = '' OR account.reference_id = @reference_id) AND (@label::text = '' OR account.label = @label)
    AND (@platform::text = '' OR account.platform = @platform)
    AND (sqlc.narg(among)::text[] IS NULL OR account.id = ANY (sqlc.narg(among)))
    AND account_matches(@query::text, account.label, account.username, account.display_name, account.reference_id, account.id, account.upstream_id)
GROUP BY account.state;

-- name: Labels :many
SELECT id, label, username FROM account WHERE org_id = @org_id AND id = ANY (@ids::text[]);

-- name: Save :exec
-- Only of a row that the transaction has locked.
UPDATE account SET label = @label, state = @state, state_reason = @state_reason, state_changed_at = @state_changed_at, username = @username,
    display_name = @display_name, avatar_url = @avatar_url, region = @region, reference_id = @reference_id, metadata = @metadata,
    remember_credentials = @remember_credentials, first_active_at = @first_active_at, down_since = @down_since,
    version_at = CASE WHEN session_version = @session_version THEN version_at ELSE clock_timestamp() END,
    session_version = @session_version, sealed_version = @sealed_version, sign_in = @sign_in, session_dead = @session_dead,
    session_expires_at = @session_expires_at, warn_at = @warn_at, attempt_id = @attempt_id, attempt_kind = @attempt_kind,
    site = @site, site_root = @site_root, credentials = @credentials, pending_attempt_id = @pending_attempt_id, reauth_owner = @reauth_owner, reauth_until = @reauth_until,
    reauth_tries = @reauth_tries
WHERE org_id = @org_id AND id = @id;

-- name: SaveHealth :exec
-- Others write the times meanwhile; they only grow.
UPDATE account_health SET probe_at = @probe_at, last_seen_at = GREATEST(last_seen_at, sqlc.narg(seen_at)),
    last_checked_at = GREATEST(last_checked_at, sqlc.narg(checked_at)), troubles = @troubles, troubled_at = @troubled_at, goods = @goods,
    listener_since = CASE WHEN @hung_up::boolean AND listener_state = 'up' THEN @changed_at ELSE listener_since END,
    listener_state = CASE WHEN @hung_up THEN 'off' ELSE listener_state END
WHERE org_id = @org_id AND account_id = @account_id;

-- name: Pending :exec
-- An attempt that has ended clears only itself.
UPDATE account SET pending_attempt_id = @pending
WHERE org_id = @org_id AND id = @id AND disconnecting_at IS NULL AND (@seen::text = '' OR pending_attempt_id = @seen);

-- name: Rotate :one
UPDATE account SET session_version = session_version + 1, sealed_version = sealed_version + 1, version_at = clock_timestamp(),
    session_expires_at = @session_expires_at, refresh_until = NULL,
    warn_at = CASE WHEN session_expires_at IS DISTINCT FROM @session_expires_at THEN @warn_at ELSE warn_at END
WHERE org_id = @org_id AND id = @id AND sealed_version = @seen AND sign_in = @sign_in AND disconnecting_at IS NULL
RETURNING session_version;

-- name: ClaimRefresh :execrows
UPDATE account SET refresh_until = @until
WHERE org_id = @org_id AND id = @id AND sealed_version = @seen AND disconnecting_at IS NULL AND (refresh_until IS NULL OR refresh_until <= @now);

-- name: ReleaseRefresh :exec
UPDATE account SET refresh_until = NULL WHERE org_id = @org_id AND id = @id AND refresh_until = @until;

-- name: PutSecret :exec
INSERT INTO account_secret (org_id, account_id, purpose, version, sealed) VALUES (@org_id, @account_id, @purpose, @version, @sealed)
ON CONFLICT (org_id, account_id, purpose) DO UPDATE SET version = @version, sealed = @sealed;

-- name: Secret :one
SELECT version, sealed FROM account_secret WHERE org_id = @org_id AND account_id = @account_id AND purpose = @purpose;

-- name: DropSecret :exec
DELETE FROM account_secret WHERE org_id = @org_id AND account_id = @account_id AND purpose = @purpose;

-- name: DropSecrets :exec
DELETE FROM account_secret WHERE org_id = @org_id AND account_id = @account_id;

-- name: Seen :exec
-- tenant: each account has its own org
-- A row that is locked is being written for another reason, so it is skipped instead of waited for.
UPDATE account_health SET last_seen_at = @now, troubles = CASE WHEN seen.calm THEN 0 ELSE troubles END,
    probe_at = CASE WHEN seen.calm AND account_health.probe_at IS NOT NULL THEN seen.probe_at ELSE account_health.probe_at END
FROM (
    SELECT due.org_id, due.account_id, n.calm, n.probe_at
    FROM (SELECT unnest(@orgs::text[]) AS org_id, unnest(@accounts::text[]) AS account_id, unnest(@calm::boolean[]) AS calm,
        unnest(@probe_ats::timestamptz[]) AS probe_at) n
    JOIN account_health due ON due.org_id = n.org_id AND due.account_id = n.account_id
    WHERE due.last_seen_at IS NULL OR due.last_seen_at <= @before
    FOR UPDATE OF due SKIP LOCKED
) seen
WHERE account_health.org_id = seen.org_id AND account_health.account_id = seen.account_id;

-- name: Checked :exec
-- A probe that is written down late does not start those of an account that was paused meanwhile.
UPDATE account_health SET probe_at = @probe_at, last_seen_at = GREATEST(last_seen_at, sqlc.narg(seen_at)), last_checked_at = @checked_at,
    troubles = @troubles, troubled_at = @troubled_at, goods = @goods
WHERE org_id = @org_id AND account_id = @account_id AND probe_at IS NOT NULL;

-- name: ProbeAt :exec
UPDATE account_health SET probe_at = sqlc.narg(probe_at) WHERE org_id = @org_id AND account_id = @account_id;

-- name: DueShards :many
-- tenant: the prober takes whoever is due
SELECT one.shard::int AS shard FROM unnest(@shards::int[]) AS one (shard)
WHERE EXISTS (SELECT 1 FROM account_health h WHERE h.shard = one.shard AND h.probe_at <= @now);

-- name: InOrder :exec
-- Until the transaction ends an index is read in its order, and no further than needed: after an outage a great many are due, and to
-- collect and sort them all for each few that are taken would keep it from ever being made up for.
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true);

-- name: Claim :many
-- tenant: the prober takes whoever is due
UPDATE account_health SET probe_at = @leased_until
FROM (
    SELECT h.org_id, h.account_id FROM account_health h
    WHERE h.shard = @shard AND h.probe_at <= @now
    ORDER BY h.probe_at LIMIT @max_rows FOR UPDATE SKIP LOCKED
) due
WHERE account_health.org_id = due.org_id AND account_health.account_id = due.account_id
RETURNING account_health.org_id AS org, account_health.account_id AS account;

-- name: LockWarnings :many
-- tenant: sessions end whoever they belong to
SELECT org_id AS org, id AS account FROM account
WHERE warn_at <= @now ORDER BY warn_at LIMIT @max_rows FOR UPDATE SKIP LOCKED;

-- name: InsertConsent :exec
INSERT INTO account_consent (org_id, account_id, attempt_id, flow, text_hash, text_version, who, ip_hash, at)
VALUES (@org_id, @account_id, @attempt_id, @flow, @text_hash, @text_version, @who, @ip_hash, @at)
ON CONFLICT DO NOTHING;

-- name: Consents :many
SELECT * FROM account_consent WHERE org_id = @org_id AND account_id = @account_id ORDER BY at;

-- name: MarkDisconnecting :one
UPDATE account SET disconnecting_at = @now, disconnecting_by = @by, session_version = session_version + 1, version_at = clock_timestamp(),
    warn_at = NULL
WHERE org_id = @org_id AND id = @id AND disconnecting_at IS NULL
RETURNING session_version;

-- name: Leaving :one
SELECT * FROM account WHERE org_id = @org_id AND id = @id AND disconnecting_at IS NOT NULL AND disconnected_at IS NULL;

-- name: LockLeaving :one
SELECT * FROM account WHERE org_id = @org_id AND id = @id AND disconnecting_at IS NOT NULL AND disconnected_at IS NULL FOR UPDATE;

-- name: Unfinished :many
-- tenant: a disconnect is finished whoever began it
SELECT org_id AS org, id AS account FROM account
WHERE disconnecting_at <= @before AND disconnected_at IS NULL
ORDER BY disconnecting_at LIMIT @max_rows;

-- name: Remaining :many
-- The accounts that are not disconnected yet, or not completely.
SELECT id, (disconnecting_at IS NOT NULL)::boolean AS leaving FROM account
WHERE org_id = @org_id AND disconnected_at IS NULL ORDER BY id LIMIT @max_rows;

-- name: Bury :exec
UPDATE account SET state = 'disconnected', state_reason = '', state_changed_at = @now, disconnected_at = @now, upstream_id = '', site = '', site_root = '',
    site_id = '', label = '', username = '', display_name = '', avatar_url = '', region = '', reference_id = '', metadata = '{}', remember_credentials = false,
    session_expires_at = NULL, warn_at = NULL, pending_attempt_id = '', reauth_owner = '', reauth_until = NULL, reauth_tries = '{}',
    disconnecting_by = NULL
WHERE org_id = @org_id AND id = @id;

-- name: DropHealth :exec
DELETE FROM account_health WHERE org_id = @org_id AND account_id = @account_id;

-- name: InsertReceipt :exec
INSERT INTO account_purge (org_id, account_id, at, receipt) VALUES (@org_id, @account_id, @at, @receipt);

-- name: Receipt :one
SELECT receipt FROM account_purge WHERE org_id = @org_id AND account_id = @account_id;

-- name: TakeShard :exec
-- tenant: a shard is work, not data
INSERT INTO account_shard (shard, epoch) VALUES (@shard, @epoch)
ON CONFLICT (shard) DO UPDATE SET epoch = GREATEST(account_shard.epoch, excluded.epoch);

-- name: Listenable :many
-- tenant: a listener has whoever is in its shard
SELECT account.org_id, account.id, account.session_version
FROM account_health JOIN account ON account.org_id = account_health.org_id AND account.id = account_health.account_id
WHERE account_health.shard = @shard AND account_health.account_id > @after AND account.disconnecting_at IS NULL
    AND account.state IN ('connecting', 'active', 'degraded')
ORDER BY account_health.account_id LIMIT @max_rows;

-- name: OwnerIn :one
-- tenant: a poke names the account alone
SELECT org_id FROM account_health WHERE shard = @shard AND account_id = @account_id;

-- name: Listened :one
-- Holds the shard, so that whoever takes it over reads what was written before. Since when a listener that is being opened has not been
-- up is what counts, and stays.
WITH mine AS (SELECT shard FROM account_shard WHERE account_shard.shard = @shard AND account_shard.epoch <= @epoch FOR SHARE)
UPDATE account_health SET listener_state = @state,
    listener_since = CASE WHEN listener_state = @state OR (@state = 'connecting' AND listener_since IS NOT NULL) THEN listener_since ELSE @now END
FROM mine
WHERE account_health.org_id = @org_id AND account_health.account_id = @account_id AND account_health.shard = mine.shard
RETURNING account_health.goods;

-- name: Eventful :exec
-- tenant: each row is named by its own org
UPDATE account_health SET last_event_at = GREATEST(last_event_at, e.at), last_seen_at = GREATEST(last_seen_at, e.at)
FROM (SELECT unnest(@orgs::text[]) AS tenant, unnest(@accounts::text[]) AS account_id, unnest(@ats::timestamptz[]) AS at) e
WHERE account_health.org_id = e.tenant AND account_health.account_id = e.account_id;

-- name: Find :many
-- tenant: operators look for accounts of all orgs, and see what they are but nothing that is in them
-- Each part reads an index of its own: an OR over them would have the planner read all accounts.
SELECT a.org_id, a.id, a.upstream_id, a.label, a.state, a.state_reason, a.state_changed_at, a.username, a.region, a.created_at,
    h.last_seen_at, h.last_checked_at, coalesce(h.listener_state, 'off')::text AS listener_state, h.listener_since, coalesce(h.shard, 0)::smallint AS shard
FROM (
    SELECT x.org_id, x.id FROM account x WHERE x.id = @text::text
    UNION
    SELECT x.org_id, x.id FROM account x WHERE x.upstream_id = @text::text AND x.disconnecting_at IS NULL
    UNION
    (SELECT x.org_id, x.id FROM account x WHERE lower(x.username) COLLATE "C" >= @low AND lower(x.username) COLLATE "C" < @high AND x.disconnecting_at IS NULL
     ORDER BY lower(x.username) COLLATE "C" LIMIT 500)
    UNION
    (SELECT x.org_id, x.id FROM account x WHERE lower(x.label) COLLATE "C" >= @low AND lower(x.label) COLLATE "C" < @high AND x.disconnecting_at IS NULL
     ORDER BY lower(x.label) COLLATE "C" LIMIT 500)
) found
JOIN account a ON a.org_id = found.org_id AND a.id = found.id
LEFT JOIN account_health h ON h.org_id = a.org_id AND h.account_id = a.id
WHERE a.disconnecting_at IS NULL AND a.id < @before AND (@only_org::text = '' OR a.org_id = @only_org)
    AND (@state::text = '' OR a.state = @state) AND (@region::text = '' OR a.region = @region)
ORDER BY a.id DESC LIMIT @max_rows;

-- name: Newest :many
-- tenant: operators look for accounts of all orgs, and see what they are but nothing that is in them
SELECT a.org_id, a.id, a.upstream_id, a.label, a.state, a.state_reason, a.state_changed_at, a.username, a.region, a.created_at,
    h.last_seen_at, h.last_checked_at, coalesce(h.listener_state, 'off')::text AS listener_state, h.listener_since, coalesce(h.shard, 0)::smallint AS shard
FROM account a LEFT JOIN account_health h ON h.org_id = a.org_id AND h.account_id = a.id
WHERE a.disconnecting_at IS NULL AND a.id < @before AND (@only_org::text = '' OR a.org_id = @only_org)
    AND (@state::text = '' OR a.state = @state) AND (@region::text = '' OR a.region = @region)
ORDER BY a.id DESC LIMIT @max_rows;

-- name: ListenersByShard :many
-- tenant: operators see how many listeners a shard has, and in which state
SELECT shard, listener_state, count(*) AS accounts FROM account_health GROUP BY shard, listener_state;

-- name: CountAll :many
-- tenant: metrics count the accounts of all orgs
SELECT state, count(*) AS accounts FROM account WHERE disconnecting_at IS NULL GROUP BY state;
