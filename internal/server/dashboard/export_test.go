package dashboard

// SafeTo is safeTo, for tests.
var SafeTo = safeTo
