// Package yamldate keeps the dates of YAML as they are written. In JSON, and so in the
// arguments of tools, a date is a text, but the YAML package makes a time.Time of it, which
// encoding/json writes as another text: 2026-01-31 becomes 2026-01-31T00:00:00Z.
package yamldate

import "go.yaml.in/yaml/v4"

// Keep makes the dates in a tree texts.
func Keep(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, child := range n.Content {
		Keep(child)
	}
}
