package lease

// Place is place, for tests.
var Place = place
