-- +goose Up

-- Until when a node holds the right to refresh the account's OAuth tokens. The database's clock decides.
ALTER TABLE account ADD COLUMN refresh_until timestamptz;

-- SHA-256 of the state with which the creator comes back from the platform, and of the cookie of the browser that was
-- sent there. Null before the creator has agreed on our page, and for attempts without OAuth.
ALTER TABLE attempt
    ADD COLUMN oauth_state   bytea,
    ADD COLUMN oauth_browser bytea;
