//go:build race

package module_test

// raced tells whether the race detector watches, under which a module that Go made
// takes a minute to compile.
const raced = true
