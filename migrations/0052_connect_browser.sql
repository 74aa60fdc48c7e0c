-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- A link is bound to the browser in which a person opened it. Rows of the previous version have not been opened.
ALTER TABLE connect_session
    -- Hashes of the secrets of the browsers that opened the link, the current one last.
    ADD COLUMN browsers       bytea[] NOT NULL DEFAULT '{}',
    -- When the current browser opened it, and roughly what kind it is, such as Safari and iPhone; empty if not known.
    ADD COLUMN bound_at       timestamptz,
    ADD COLUMN browser_name   text NOT NULL DEFAULT '',
    ADD COLUMN browser_system text NOT NULL DEFAULT '',
    -- How many of the attempts were made in earlier browsers. The current one does not show them.
    ADD COLUMN others         int NOT NULL DEFAULT 0;

-- A browser knows only the id of the session.
CREATE UNIQUE INDEX connect_session_id ON connect_session (id);
