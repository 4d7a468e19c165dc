// Package driver tests the example of a driver that is a program; see docs/runner.md.
package driver
