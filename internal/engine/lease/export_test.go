package lease

// PreferredNode is preferredNode, for tests.
var PreferredNode = preferredNode
