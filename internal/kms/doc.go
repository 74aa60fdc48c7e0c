// Package kms speaks to the key management services that wrap the keys of orgs.
//
// It owns the wrapped form (wrapped.go) and one adapter per service: a keyset in a file (local.go) and the transit engine
// of Vault and OpenBao (transit.go). It does not know what is wrapped, caches nothing and tries nothing twice; package seal
// does that. What every adapter must do is in package kmstest. Start reading at Wrapper.
package kms
