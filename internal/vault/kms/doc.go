// Package kms is the interface to the key management services that wrap the keys of organisations.
//
// It owns the format of wrapped keys (wrapped.go) and one adapter per service: a keyset in a file (local.go), the
// transit engine of Vault and OpenBao (transit.go), AWS KMS (aws.go) and Google Cloud KMS (gcp.go). It does not know
// what the keys are for and caches nothing; package seal does. Package kmstest has the tests that every adapter must
// pass. Start with Wrapper; Open makes one from a setting.
package kms
