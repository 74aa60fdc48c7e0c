package webhook

// Holding says whether a bucket is delivered here.
func (w *Webhooks) Holding(bucket int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[bucket] != nil
}
