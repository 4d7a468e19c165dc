// Package builtintest is the suite that every built-in tool passes. Its tests call each tool
// with valid, invalid, hostile and huge arguments, cancel it in the middle, call it as two
// identities side by side, deny it by policy, and compare the effects that its receipts
// predict with the system calls that strace saw. A tool without a row in rows_test.go fails.
// It also lists the definitions of all tools, and writes their reference from the schemas.
package builtintest
