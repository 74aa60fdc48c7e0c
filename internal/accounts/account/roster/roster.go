// Package roster has what lists need to know of an org's accounts besides the accounts themselves: how many there are in each state, and
// what they are called.
package roster

import (
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Roster is the service.
type Roster struct{ db *postgres.DB }

// New makes the service.
func New(db *postgres.DB) *Roster { return &Roster{db} }
