// Package guest tests docs/bridge.md: a guest that was written from that page, in another
// language, passes the test suite of engines.
package guest
