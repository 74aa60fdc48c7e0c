package member

// CleanText is for tests.
var CleanText = cleanText
