-- name: RootKey :one
-- tenant: the root belongs to the installation
SELECT kms_id, kms_version, wrapped FROM keyring.root_key;

-- name: RootKeyMadeAt :one
-- tenant: the root belongs to the installation
SELECT made_at FROM keyring.root_key;

-- name: AuditKeyedAt :one
-- tenant: it concerns the installation
SELECT audit_keyed_at FROM keyring.root_key;

-- name: SetAuditKeyed :execrows
-- tenant: it concerns the installation
UPDATE keyring.root_key SET audit_keyed_at = coalesce(audit_keyed_at, @now);

-- name: AddRootKey :exec
-- tenant: the root belongs to the installation
INSERT INTO keyring.root_key (kms_id, kms_version, wrapped, made_at) VALUES (@kms_id, @kms_version, @wrapped, @now)
ON CONFLICT DO NOTHING;

-- name: RewrapRootKey :execrows
-- tenant: the root belongs to the installation
UPDATE keyring.root_key SET kms_id = @kms_id, kms_version = @kms_version, wrapped = @wrapped WHERE wrapped = @old;

-- name: NewestOrgKey :one
SELECT version, wrapped FROM keyring.org_key WHERE org_id = @org_id ORDER BY version DESC LIMIT 1;

-- name: AddOrgKey :execrows
INSERT INTO keyring.org_key (org_id, version, kms_id, kms_version, wrapped, made_at)
VALUES (@org_id, @version, @kms_id, @kms_version, @wrapped, @now)
ON CONFLICT DO NOTHING;

-- name: RewrapOrgKey :execrows
UPDATE keyring.org_key SET kms_id = @kms_id, kms_version = @kms_version, wrapped = @wrapped
WHERE org_id = @org_id AND version = @version AND wrapped = @old;

-- name: OrgKeys :many
-- tenant: verification and re-wrapping go through all orgs
SELECT org_id, version, kms_id, kms_version, wrapped FROM keyring.org_key
WHERE (org_id, version) > (@after_org::text, @after_version::integer) ORDER BY org_id, version LIMIT @count;

-- name: OrgKeysToRewrap :many
-- tenant: re-wrapping goes through all orgs
SELECT org_id, version, kms_id, kms_version, wrapped FROM keyring.org_key
WHERE (org_id, version) > (@after_org::text, @after_version::integer) AND (kms_id, kms_version) <> (@kms_id::text, @kms_version::bigint)
ORDER BY org_id, version LIMIT @count;

-- name: DropOldOrgKeys :execrows
-- Deletes keys that wrap nothing any more. If a data key is being added with one of them, the foreign key makes one
-- of the two statements fail.
DELETE FROM keyring.org_key o WHERE o.org_id = @org_id AND o.version < @newest
AND NOT EXISTS (SELECT 1 FROM keyring.data_key d WHERE d.org_id = o.org_id AND d.org_version = o.version);

-- name: OrgsInRotation :many
-- tenant: re-wrapping goes through all orgs
SELECT org_id FROM keyring.org_key
WHERE org_id > @after_org::text GROUP BY org_id HAVING count(*) > 1 ORDER BY org_id LIMIT @count;

-- name: AddHolder :execrows
-- This is one statement, so that of concurrent calls that prepare or shred a holder one is first and the others see its
-- result.
WITH made AS (
    INSERT INTO keyring.key_holder (org_id, holder, id, generations, made_at) VALUES (@org_id, @holder, @id, 1, @now)
    ON CONFLICT DO NOTHING
    RETURNING org_id, holder
)
INSERT INTO keyring.data_key (org_id, holder, generation, org_version, wrapped)
SELECT org_id, holder, 1, @org_version, @wrapped FROM made;

-- name: Holder :one
SELECT id, generations, shredded_at FROM keyring.key_holder WHERE org_id = @org_id AND holder = @holder;

-- name: AddGeneration :execrows
-- Locks the row of the holder first. A concurrent shredding either waits and deletes this generation too, or came
-- first and is noticed here.
WITH counted AS (
    UPDATE keyring.key_holder h SET generations = @generation
    WHERE h.org_id = @org_id AND h.holder = @holder AND h.generations + 1 = @generation AND h.shredded_at IS NULL
    RETURNING h.org_id, h.holder
)
INSERT INTO keyring.data_key (org_id, holder, generation, org_version, wrapped)
SELECT counted.org_id, counted.holder, @generation, @org_version, @wrapped FROM counted;

-- name: DataKeys :many
-- Includes the org keys that wrap the data keys, so that one query reads everything that is needed to open a text.
SELECT d.generation, d.org_version, d.wrapped, o.wrapped AS org_wrapped
FROM keyring.data_key d JOIN keyring.org_key o ON o.org_id = d.org_id AND o.version = d.org_version
WHERE d.org_id = @org_id AND d.holder = @holder ORDER BY d.generation;

-- name: DataKeysAmong :many
-- The same of several holders.
SELECT d.holder, d.generation, d.org_version, d.wrapped, o.wrapped AS org_wrapped
FROM keyring.data_key d JOIN keyring.org_key o ON o.org_id = d.org_id AND o.version = d.org_version
WHERE d.org_id = @org_id AND d.holder = ANY (@holders::text[]) ORDER BY d.holder, d.generation;

-- name: MarkShredded :one
INSERT INTO keyring.key_holder (org_id, holder, id, generations, made_at, shredded_at) VALUES (@org_id, @holder, '', 0, @now, @now)
ON CONFLICT (org_id, holder) DO UPDATE SET shredded_at = coalesce(key_holder.shredded_at, excluded.shredded_at)
RETURNING id, generations, shredded_at;

-- name: ShreddedAfter :many
-- tenant: a process has keys of all orgs in memory
SELECT org_id, holder, shredded_at::timestamptz AS shredded_at FROM keyring.key_holder
WHERE shredded_at > @after ORDER BY shredded_at LIMIT @count;

-- name: DeleteDataKeys :execrows
DELETE FROM keyring.data_key WHERE org_id = @org_id AND holder = @holder;

-- name: LiveHolders :many
SELECT holder FROM keyring.key_holder WHERE org_id = @org_id AND shredded_at IS NULL ORDER BY holder LIMIT @count;

-- name: DropHolders :execrows
DELETE FROM keyring.key_holder WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM keyring.key_holder h WHERE h.org_id = @org_id AND h.shredded_at IS NOT NULL LIMIT @count
));

-- name: DropOrgKeys :exec
DELETE FROM keyring.org_key WHERE org_id = @org_id;

-- name: ForgetShredded :execrows
-- tenant: housekeeping goes through all orgs
DELETE FROM keyring.key_holder WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM keyring.key_holder h WHERE h.shredded_at < @before ORDER BY h.shredded_at LIMIT @count
));

-- name: DataKeysToRewrap :many
SELECT d.holder, d.generation, d.org_version, d.wrapped, o.wrapped AS org_wrapped
FROM keyring.data_key d JOIN keyring.org_key o ON o.org_id = d.org_id AND o.version = d.org_version
WHERE d.org_id = @org_id AND d.org_version < @newest AND (d.holder, d.generation) > (@after_holder::text, @after_generation::integer)
ORDER BY d.holder, d.generation LIMIT @count;

-- name: Orgs :many
-- tenant: a rotation goes through all orgs
SELECT org_id, max(version)::integer AS newest FROM keyring.org_key
WHERE org_id > @after_org::text GROUP BY org_id ORDER BY org_id LIMIT @count;

-- name: RewrapDataKeys :execrows
-- Does not bring back a data key that was shredded in the meantime.
UPDATE keyring.data_key d SET org_version = @newest, wrapped = n.wrapped
FROM (SELECT unnest(@holders::text[]) AS holder, unnest(@generations::integer[]) AS generation, unnest(@keys::bytea[]) AS wrapped) n
WHERE d.org_id = @org_id AND d.holder = n.holder AND d.generation = n.generation AND d.org_version < @newest;

-- name: AllDataKeys :many
-- tenant: verification goes through all orgs
SELECT d.org_id, d.holder, d.generation, d.org_version, d.wrapped, o.wrapped AS org_wrapped
FROM keyring.data_key d JOIN keyring.org_key o ON o.org_id = d.org_id AND o.version = d.org_version
WHERE (d.org_id, d.holder, d.generation) > (@after_org::text, @after_holder::text, @after_generation::integer)
ORDER BY d.org_id, d.holder, d.generation LIMIT @count;

-- name: CountOrgKeys :many
-- tenant: the status is of the whole installation
SELECT kms_id, kms_version, count(*) AS keys FROM keyring.org_key GROUP BY kms_id, kms_version ORDER BY kms_id, kms_version;

-- name: CountDataKeys :one
-- tenant: the status is of the whole installation
SELECT count(*) AS keys, count(*) FILTER (WHERE d.generation > 1) AS renewed,
       count(*) FILTER (WHERE d.org_version < n.newest) AS waiting, count(DISTINCT d.org_id) AS orgs
FROM keyring.data_key d JOIN (SELECT org_id, max(version) AS newest FROM keyring.org_key GROUP BY org_id) n ON n.org_id = d.org_id;

-- name: CountHolders :one
-- tenant: the status is of the whole installation
SELECT count(*) FILTER (WHERE shredded_at IS NULL) AS live, count(*) FILTER (WHERE shredded_at IS NOT NULL) AS shredded FROM keyring.key_holder;

-- name: CountRotating :one
-- tenant: the metric is of the whole installation
SELECT count(*) FROM (SELECT org_id FROM keyring.org_key GROUP BY org_id HAVING count(*) > 1) rotating;
