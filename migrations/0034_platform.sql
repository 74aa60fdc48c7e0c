-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion

-- The platform that an account is on, and the creator's site on a platform where each creator has one: site as the caller
-- gave it, site_root as requests use it after redirects, and site_id as the platform identifies it. A creator's id is
-- unique on one site only. credentials is what the account signs in with: session, token or oauth.
ALTER TABLE account
    ADD COLUMN platform    text NOT NULL DEFAULT 'sandbox',
    ADD COLUMN site        text NOT NULL DEFAULT '',
    ADD COLUMN site_root   text NOT NULL DEFAULT '',
    ADD COLUMN site_id     text NOT NULL DEFAULT '',
    ADD COLUMN credentials text NOT NULL DEFAULT 'session';
DROP INDEX account_upstream;
CREATE UNIQUE INDEX account_upstream ON account (org_id, platform, site_id, upstream_id) WHERE disconnecting_at IS NULL;

ALTER TABLE attempt
    ADD COLUMN platform  text NOT NULL DEFAULT 'sandbox',
    ADD COLUMN site      text NOT NULL DEFAULT '',
    ADD COLUMN site_root text NOT NULL DEFAULT '',
    ADD COLUMN site_id   text NOT NULL DEFAULT '',
    -- The platform's error code. upstream_code has it as well if it is a number.
    ADD COLUMN upstream_text text NOT NULL DEFAULT '';

-- The platform and the site that the link's page asks for; empty for the default platform, and to let the creator name
-- the site.
ALTER TABLE connect_session
    ADD COLUMN platform text NOT NULL DEFAULT '',
    ADD COLUMN site     text NOT NULL DEFAULT '';
