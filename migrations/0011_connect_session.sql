-- +goose Up

-- owner: connect
-- How an org's connect pages look, and which sites may frame them. No row means the defaults.
CREATE TABLE connect_page (
    org_id          text PRIMARY KEY REFERENCES org (id),
    -- #rrggbb, or empty for ours.
    brand_light     text NOT NULL,
    brand_dark      text NOT NULL,
    scheme          text NOT NULL CHECK (scheme IN ('system', 'light', 'dark')),
    allowed_origins text[] NOT NULL,
    help_url        text NOT NULL,
    updated_at      timestamptz NOT NULL
);

-- owner: connect
-- A hosted connect session: one link for one creator, until one account is connected.
CREATE TABLE connect_session (
    org_id            text NOT NULL REFERENCES org (id),
    id                text NOT NULL,
    -- SHA-256 of the link's token; the token itself is nowhere.
    token_hash        bytea NOT NULL UNIQUE,
    status            text NOT NULL CHECK (status IN ('open', 'in_progress', 'success', 'exited', 'expired')),
    kinds             text[] NOT NULL,
    reference_id      text NOT NULL,
    label             text NOT NULL,
    region            text NOT NULL,
    -- The account to connect again, or empty.
    account_id        text NOT NULL,
    return_url        text NOT NULL,
    allowed_origins   text[] NOT NULL,
    -- Empty leaves the language to the creator's browser.
    locale            text NOT NULL,
    remember          text NOT NULL CHECK (remember IN ('ask', 'always', 'never')),
    attempts          text[] NOT NULL,
    -- The attempt under way, or empty.
    active_attempt    text NOT NULL,
    -- The account that was connected, or empty.
    connected_account text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    expires_at        timestamptz NOT NULL,
    finished_at       timestamptz,
    -- When a sweep must look at it: to expire it, to end it when the creator has gone, or to forget it.
    due_at            timestamptz NOT NULL,
    PRIMARY KEY (org_id, id)
);

CREATE INDEX connect_session_due ON connect_session (due_at);
