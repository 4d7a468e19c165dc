package hosted

// Kinds returns the statistics of the sandboxes that wait for programs that come again, one
// entry for each kind.
func (e *Engine) Kinds() []Stats {
	e.pools.mu.Lock()
	defer e.pools.mu.Unlock()
	var all []Stats
	for _, one := range e.pools.kinds {
		all = append(all, one.now())
	}
	return all
}
