-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- The newest time, by the platform's clock, of a frame that is stored. A newer frame cannot be a repeat; for an older one the writer looks
-- its id up. Rows of earlier versions get a bound: no platform's clock is a day ahead.
ALTER TABLE event_source ADD COLUMN newest_frame_at timestamptz;
UPDATE event_source SET newest_frame_at = last_at + interval '1 day' WHERE last_seq > 0;

-- Finds an event by the id of its frame. The hash keeps the index small: 26 bytes per event.
CREATE INDEX event_upstream ON event (hashtextextended(upstream_id, 0)) WHERE upstream_id <> '';
