// Package examples tests that the examples print the documented output.
package examples
