package schema

import "time"

// Limits bound what one schema, and one check against it, may cost. The zero
// value means the defaults, which leave ample room: the tools of public
// collections have some tens of subschemas.
type Limits struct {
	// Bytes is the largest schema text, 1 MiB if zero.
	Bytes int
	// Depth is how deep the schema text may nest, 128 levels if zero.
	Depth int
	// Subschemas is how many places of the text may hold a subschema (objects,
	// arrays and booleans are counted), 10,000 if zero. The validator's compile
	// time grows with the square of it: 10,000 take 0.6 to 1 s.
	Subschemas int
	// CompileTime stops the compilation of a schema that stays within the other
	// limits and is slow all the same, 2 s if zero. It is looked at between
	// subschemas, so that the compilation may take half a second longer.
	CompileTime time.Duration
	// Steps is how much work one check may cost the checker, 200,000 if zero. A
	// step takes up to a microsecond and 500 bytes: evaluating a subschema at a
	// value is one, and one more for each member or element.
	Steps int
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.Bytes, 1<<20)
	setDefault(&l.Depth, 128)
	setDefault(&l.Subschemas, 10_000)
	setDefault(&l.CompileTime, 2*time.Second)
	setDefault(&l.Steps, 200_000)
	return l
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Bounds that nobody needs to change.
const (
	// maxPointers is the sum of the lengths of the pointers to all subschemas.
	// The validator keeps each pointer, so that one long key above many
	// subschemas would multiply.
	maxPointers = 8 << 20
	// maxComposites is how many objects and arrays one array of a schema may
	// hold. The validator looks for equal ones among them in quadratic time.
	maxComposites = 2_000
	// maxChain is how many subschemas may follow each other ($ref, allOf, …)
	// without going into the document. With maxDocumentDepth it bounds the
	// stack that the recursive validator needs.
	maxChain = 64
	// maxDocumentDepth is how deep a document given to Validate may nest.
	maxDocumentDepth = 256
	// maxNumber is the longest number, and the largest exponent. The validator
	// computes with exact fractions; 1e999999 alone takes it 10 ms.
	maxNumber = 400
	// maxPattern is the longest regular expression in bytes.
	maxPattern = 4 << 10
	// maxBacktracking and maxGroups bound a regular expression that Go's own
	// engine does not take: the other one needs cubic time to compile nested
	// groups (82 s for 1,500 of them).
	maxBacktracking = 1 << 10
	maxGroups       = 20
	// maxPrograms is the size of all regular expressions of a schema together,
	// in instructions of about 40 bytes.
	maxPrograms = 200_000
)
