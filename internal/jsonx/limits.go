package jsonx

// Defaults of [Limits].
const (
	DefaultBytes = 4 << 20
	DefaultDepth = 64
)

// maxDepth stays below the 10,000 levels at which jsontext itself gives up.
const maxDepth = 9_999

// Limits bound one document. The zero value means the defaults.
type Limits struct {
	// Bytes is the largest length of the text, [DefaultBytes] (4 MiB) if zero.
	Bytes int
	// Depth is how many objects and arrays may be open at once,
	// [DefaultDepth] (64) if zero and never more than 9,999.
	Depth int
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Depth <= 0 {
		l.Depth = DefaultDepth
	}
	l.Depth = min(l.Depth, maxDepth)
	return l
}
