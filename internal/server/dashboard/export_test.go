package dashboard

// SafeTo is for tests.
var SafeTo = safeTo
