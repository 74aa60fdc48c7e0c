package route

// CheckJSON opens the body check to fuzzing.
var CheckJSON = checkJSON

// Reason is the problem that a stream ended with.
func (s *Events) Reason() string { return s.reason }
