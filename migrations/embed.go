// Package migrations embeds the database schema. The files are numbered, forward-only, and never edited once released.
package migrations

import "embed"

// Files holds the SQL migrations in the format of goose.
//
//go:embed *.sql
var Files embed.FS
