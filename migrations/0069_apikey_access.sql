-- +goose Up

ALTER TABLE api_key
    -- The networks from which the key may be used, in CIDR notation; null for any address.
    ADD COLUMN allowed_ips text[],
    -- The key that replaced it in a rotation; empty if none did.
    ADD COLUMN replaced_by text NOT NULL DEFAULT '',
    -- The person who created it, directly or through other keys; empty for keys of operators.
    ADD COLUMN minted_by text NOT NULL DEFAULT '';

-- The audit log knows who created the keys that exist.
WITH RECURSIVE minted (org_id, key_id, person_id) AS (
    SELECT org_id, target, actor_id FROM audit_entry WHERE action = 'key.mint' AND actor_kind = 'member'
    UNION
    SELECT a.org_id, a.target, m.person_id
    FROM minted m JOIN audit_entry a ON a.org_id = m.org_id AND a.actor_id = m.key_id
    WHERE a.action = 'key.mint' AND a.actor_kind = 'key'
)
UPDATE api_key k SET minted_by = m.person_id FROM minted m WHERE k.org_id = m.org_id AND k.id = m.key_id;
