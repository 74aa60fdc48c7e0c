-- +goose Up

-- Mails that wait for the mail server, and what became of them. A row is deleted after 30 days.
CREATE TABLE mail (
    org_id      text NOT NULL REFERENCES org (id),
    id          text NOT NULL,
    kind        text NOT NULL,
    state       text NOT NULL CHECK (state IN ('queued', 'sent', 'failed')),
    -- The recipient and the text, sealed with the key of the organisation; null once the mail is sent or has failed.
    sealed      bytea,
    -- Why it failed; empty for none.
    reason      text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL,
    -- From then on the mail is useless, and is not sent any more.
    expires_at  timestamptz NOT NULL,
    -- Until then one worker is sending it.
    taken_until timestamptz,
    PRIMARY KEY (org_id, id)
);

CREATE INDEX mail_by_time ON mail (org_id, created_at);
CREATE INDEX mail_created ON mail (created_at);

-- When the last mail of a subject was added. There is at most one per hour.
CREATE TABLE mail_subject (
    org_id  text NOT NULL REFERENCES org (id),
    -- A keyed hash of what the mail is about and of its recipient.
    subject bytea NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (org_id, subject)
);

CREATE INDEX mail_subject_at ON mail_subject (at);

-- +goose StatementBegin
DO $$
DECLARE
    tenant text;
BEGIN
    FOREACH tenant IN ARRAY ARRAY['mail', 'mail_subject'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant);
        EXECUTE format(
            'CREATE POLICY org ON %I USING (CASE WHEN org_id = current_setting(''stagedoor.org'', true) THEN true ELSE current_setting(''stagedoor.org'', true) = ''*'' END)',
            tenant
        );
    END LOOP;
END
$$;
-- +goose StatementEnd
