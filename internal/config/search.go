package config

import "time"

// Search is the section "search": how searches find tools.
type Search struct {
	// Learn is whether searches learn from the calls that follow them (true).
	Learn *bool `yaml:"learn,omitempty"`
	// Embedder is the name of the embedder, or none. The default is the one that was added
	// last.
	Embedder string `yaml:"embedder,omitempty"`
	// Weight is how much meaning counts beside words, which count 1 (1).
	Weight float64 `yaml:"weight,omitempty"`
	// Wait is how long a search waits for the vector of its query (300 ms).
	Wait time.Duration `yaml:"wait,omitempty"`
}

// NoEmbedder is the value of Search.Embedder that turns embedders off.
const NoEmbedder = "none"

// Learns reports whether searches learn.
func (s Search) Learns() bool { return s.Learn == nil || *s.Learn }

func (c checker) checkSearch(s Search) {
	if s.Weight > 10 {
		c.addProblem("search.weight", "the weight of meaning must be from 0 to 10", "for example 1")
	}
	if s.Wait > time.Minute {
		c.addProblem("search.wait", "a search waits for at most a minute", "for example 300ms")
	}
}
