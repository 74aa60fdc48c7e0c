package route

// CheckJSON opens the body check to fuzzing.
var CheckJSON = checkJSON
