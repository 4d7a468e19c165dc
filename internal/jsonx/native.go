package jsonx

import "encoding/json"

// Native makes the numbers of a decoded tree those of Go, in place: whole ones
// that fit are int, so that they compare and index as people expect, and
// fractions float64. Larger whole ones stay exact text.
func Native(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		if f, err := v.Float64(); err == nil && !isWhole(v) {
			return f
		}
		return v
	case map[string]any:
		for k, child := range v {
			v[k] = Native(child)
		}
	case []any:
		for i, child := range v {
			v[i] = Native(child)
		}
	}
	return v
}

func isWhole(n json.Number) bool {
	for _, c := range n {
		if c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
