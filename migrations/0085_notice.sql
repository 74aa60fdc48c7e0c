-- +goose Up

-- How an organisation wants to be notified. Without a row it gets mails only.
CREATE TABLE notice_setting (
    org_id        text PRIMARY KEY REFERENCES org (id),
    -- The Slack-compatible URL, sealed with the key of the organisation, by version; null for none. Its host is shown.
    slack         bytea,
    slack_version bigint NOT NULL,
    slack_host    text NOT NULL,
    -- Null for all kinds.
    kinds         text [],
    locale        text NOT NULL
);

-- What an organisation is told. A row is deleted 30 days after it was told.
CREATE TABLE notice (
    org_id  text NOT NULL REFERENCES org (id),
    kind    text NOT NULL,
    -- What it is about: an account and its event, a webhook and the start of its failure, a key and its end, a share of a month.
    subject text NOT NULL,
    data    jsonb NOT NULL,
    at      timestamptz NOT NULL,
    -- Null until it was told.
    told_at timestamptz,
    PRIMARY KEY (org_id, kind, subject)
);

CREATE INDEX notice_waiting ON notice (org_id, kind) WHERE told_at IS NULL;
CREATE INDEX notice_told ON notice (told_at) WHERE told_at IS NOT NULL;

-- When an organisation was told last of a kind. That happens at most once per hour.
CREATE TABLE notice_turn (
    org_id text NOT NULL REFERENCES org (id),
    kind   text NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (org_id, kind)
);

-- Recipients who want no notices of an organisation, as keyed hashes of their addresses.
CREATE TABLE notice_unsubscribed (
    org_id  text NOT NULL REFERENCES org (id),
    address bytea NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (org_id, address)
);

-- +goose StatementBegin
DO $$
DECLARE
    tenant text;
BEGIN
    FOREACH tenant IN ARRAY ARRAY['notice_setting', 'notice', 'notice_turn', 'notice_unsubscribed'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant);
        EXECUTE format(
            'CREATE POLICY org ON %I USING (CASE WHEN org_id = current_setting(''stagedoor.org'', true) THEN true ELSE current_setting(''stagedoor.org'', true) = ''*'' END)',
            tenant
        );
    END LOOP;
END
$$;
-- +goose StatementEnd
