package version

// Read exports read for tests.
var Read = read
