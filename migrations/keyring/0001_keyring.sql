-- +goose Up
CREATE SCHEMA IF NOT EXISTS keyring;

-- No table here refers to one outside: the schema may be in a database of its own.

-- owner: seal
-- What link tokens and the signatures of receipts are derived from. There is one, for ever.
CREATE TABLE keyring.root_key (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    kms_id      text NOT NULL,
    kms_version bigint NOT NULL,
    wrapped     bytea NOT NULL,
    made_at     timestamptz NOT NULL
);

-- owner: seal
-- The keys of an org, wrapped by the key management service. The highest version wraps; older ones are here until nothing
-- needs them.
CREATE TABLE keyring.org_key (
    org_id      text NOT NULL,
    version     integer NOT NULL CHECK (version > 0),
    kms_id      text NOT NULL,
    kms_version bigint NOT NULL,
    wrapped     bytea NOT NULL,
    made_at     timestamptz NOT NULL,
    PRIMARY KEY (org_id, version)
);

-- owner: seal
-- Whoever has, or had, a data key. A shredded holder stays for a while, so that it is given no second key by somebody who
-- is late, and so that an interrupted disconnect can still say what was shredded.
CREATE TABLE keyring.key_holder (
    org_id      text NOT NULL,
    holder      text NOT NULL,
    id          text NOT NULL,
    generations integer NOT NULL,
    made_at     timestamptz NOT NULL,
    shredded_at timestamptz,
    PRIMARY KEY (org_id, holder)
);

CREATE INDEX key_holder_shredded ON keyring.key_holder (shredded_at) WHERE shredded_at IS NOT NULL;

-- owner: seal
-- Data keys, wrapped by a key of their org. Without its row everything that a holder has sealed is noise.
CREATE TABLE keyring.data_key (
    org_id      text NOT NULL,
    holder      text NOT NULL,
    generation  integer NOT NULL CHECK (generation > 0),
    org_version integer NOT NULL,
    wrapped     bytea NOT NULL,
    PRIMARY KEY (org_id, holder, generation),
    FOREIGN KEY (org_id, holder) REFERENCES keyring.key_holder (org_id, holder),
    FOREIGN KEY (org_id, org_version) REFERENCES keyring.org_key (org_id, version)
);

CREATE INDEX data_key_org_version ON keyring.data_key (org_id, org_version);
