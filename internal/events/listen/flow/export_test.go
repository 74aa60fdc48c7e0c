package flow

// Candidates returns the number of frames that may become the watermark.
func (f *Flow) Candidates() int { return len(f.candidates) }
