package member

// CleanText exports cleanText for tests.
var CleanText = cleanText
