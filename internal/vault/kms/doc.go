// Package kms speaks to the key management services that wrap the keys of orgs.
//
// It owns the wrapped form (wrapped.go) and one adapter per service: a keyset in a file (local.go), the transit engine of
// Vault and OpenBao (transit.go), AWS KMS (aws.go) and Google Cloud KMS (gcp.go). It does not know what is wrapped and
// caches nothing; package seal does that. What every adapter must do is in package kmstest. Start reading at Wrapper; Open
// makes one from a setting.
package kms
