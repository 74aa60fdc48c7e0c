// Package migrations carries the schema. Files are numbered, only move forward, and are never edited once released.
package migrations

import "embed"

// Files holds the SQL in goose's format.
//
//go:embed *.sql
var Files embed.FS
