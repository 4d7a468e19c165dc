// Package examples runs the examples: what they print is part of them.
package examples
