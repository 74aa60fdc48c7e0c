package postgres

// DropInterrupted lets tests use it on a pool of their own.
var DropInterrupted = dropInterrupted

// StatementDeadline and NewDialer are for tests.
var (
	StatementDeadline = statementDeadline
	NewDialer         = newDialer
)
