// Package environment names the environments that separate test data from real accounts.
package environment

import "slices"

// Environment decides which platform an org's accounts are on, and the prefix of its keys. An org never changes its
// environment.
type Environment string

// The environments.
const (
	Sandbox Environment = "sandbox"
	Live    Environment = "live"
)

// ForSignups is the environment of the orgs that people create themselves. A mistake there does no harm.
const ForSignups = Sandbox

// All lists the environments.
func All() []Environment { return []Environment{Sandbox, Live} }

func (e Environment) IsValid() bool { return slices.Contains(All(), e) }

// IsTest reports whether the accounts of the environment are test accounts, whose logins are public.
func (e Environment) IsTest() bool { return e == Sandbox }
