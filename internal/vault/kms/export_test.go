package kms

// Unexported functions, for tests.
var (
	ParseTransit  = parseTransit
	FormatTransit = formatTransit
)
