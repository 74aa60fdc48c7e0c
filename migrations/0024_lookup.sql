-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- One event or delivery by its id alone. Ids begin with the time and rows come in about that order, so the range of ids of some pages is
-- narrow: such an index is a few hundredths of a percent of the table, and costs next to nothing when rows are written.
CREATE INDEX event_id ON event USING brin (id) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX webhook_delivery_id ON webhook_delivery USING brin (id) WITH (pages_per_range = 32, autosummarize = on);

-- Where a request came from: api, dashboard or cli. Most come from the API, so only the others have an index.
ALTER TABLE request_log ADD COLUMN source text NOT NULL DEFAULT 'api';
-- Which limit refused it; empty if none did.
ALTER TABLE request_log ADD COLUMN reason text NOT NULL DEFAULT '';
CREATE INDEX request_log_source ON request_log (org_id, source, at DESC, request_id DESC) WHERE source <> 'api';

-- About when it last called; null if it never has.
ALTER TABLE api_key ADD COLUMN last_used_at timestamptz;

CREATE INDEX audit_entry_action ON audit_entry (org_id, action, seq);
CREATE INDEX audit_entry_actor ON audit_entry (org_id, actor_id, seq);
CREATE INDEX audit_entry_at ON audit_entry (org_id, at);
