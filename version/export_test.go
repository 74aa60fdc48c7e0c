package version

// Read is read, for tests.
var Read = read
