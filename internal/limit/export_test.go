package limit

// Discard forgets what a limiter has not settled, as a process that is killed does.
func (l *Limiter) Discard() { l.collect() }
