package account

// Kind returns the kind of event that the step writes; empty for none.
func (s Step) Kind() string {
	if s.event == nil {
		return ""
	}
	return s.event(change{}).Kind()
}

// Watches reports whether WatchVersions has read all changes lately.
func (s *Accounts) Watches() bool { return s.watches() }
