// Package keyring carries the schema of the keys. It may live in a database of its own, whose backups are kept shorter.
package keyring

import "embed"

// Schema is where the tables and the version of this schema are.
const Schema = "keyring"

// Files holds the SQL in goose's format.
//
//go:embed *.sql
var Files embed.FS
