// Package schema implements the JSON Schemas of tools. It checks arguments and results,
// reports what is wrong with them, suggests corrections, and derives schemas from Go
// types.
//
// Start with [Compile], or with a [Cache] if the same text occurs often. Call
// [Schema.Accepts] first: it reads the text of a document and decides most calls
// without allocating. If it returns false, decode the document with jsonx.Decode and
// call [Schema.Validate], which decides and explains. [Repair] and [Schema.Example]
// return a document that the caller can send next. [Infer] and
// [For] write the schema of a Go type.
//
// Schemas and documents are untrusted. A call ends in bounded time and memory for any
// input, with an error that names the limit it exceeded; see [Limits].
//
// The validator is github.com/santhosh-tekuri/jsonschema, chosen because it passes
// the whole official test suite.
package schema
