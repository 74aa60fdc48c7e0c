-- +goose Up

-- owner: control
-- What operators have decided for all nodes and that is out of the ordinary: no row, nothing switched off, nothing drained, no banner.
CREATE TABLE control (
    -- switch, drain or banner.
    kind       text NOT NULL,
    -- connects or region/us; us/ and a proxy's fingerprint; empty for the banner.
    name       text NOT NULL,
    -- What the banner says; {} for the others.
    value      jsonb NOT NULL DEFAULT '{}',
    reason     text NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (kind, name)
);
