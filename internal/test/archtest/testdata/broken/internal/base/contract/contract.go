// Package contract defines an event that no package sends.
package contract

type Sent struct{}

type Unsent struct{}

type Definition struct{}

func define[T any]() Definition { return Definition{} }

var Events = []Definition{define[Sent](), define[Unsent]()}
