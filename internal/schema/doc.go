// Package schema holds the JSON Schemas of tools: it checks arguments and
// results, says what is wrong with them and how it would be right, and derives
// schemas from Go types.
//
// Start with [Compile], or with a [Cache] where the same text comes often. Ask
// [Schema.Accepts] first: it reads the text of a document and settles most
// calls without building anything. Where it says no, decode the document with
// jsonx.Decode and ask [Schema.Validate], which is the judge and explains. [Repair]
// and [Schema.Example] give the caller something to send next. [Infer] and
// [For] write the schema of a Go type.
//
// Schemas and documents come from strangers. Whatever they hold, a call ends
// in bounded time and memory, with an error that says which bound was met; see
// [Limits].
//
// The judge is github.com/santhosh-tekuri/jsonschema, chosen because it passes
// the whole official test suite.
package schema
