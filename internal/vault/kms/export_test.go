package kms

// What tests see of the inside.
var (
	ParseTransit  = parseTransit
	FormatTransit = formatTransit
)
