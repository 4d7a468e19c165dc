package wasm

import "fmt"

// reader reads unchecked bytes. Its first error sticks: from then on everything reads
// as zero, so that callers need to check only once.
type reader struct {
	bytes []byte
	at    int
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %s", r.at, fmt.Sprintf(format, args...))
	}
}

func (r *reader) more() bool { return r.err == nil && r.at < len(r.bytes) }

func (r *reader) byte() byte {
	if !r.more() {
		r.fail("the module ends early")
		return 0
	}
	b := r.bytes[r.at]
	r.at++
	return b
}

// take reads the next n bytes without copying them.
func (r *reader) take(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(len(r.bytes)-r.at) {
		r.fail("%d bytes are announced, %d are left", n, len(r.bytes)-r.at)
		return nil
	}
	taken := r.bytes[r.at : r.at+int(n)]
	r.at += int(n)
	return taken
}

func (r *reader) u32() uint32 {
	var value uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		value |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			if value > 0xffffffff {
				r.fail("an index does not fit 32 bits")
				return 0
			}
			return uint32(value)
		}
	}
	r.fail("a number is longer than 5 bytes")
	return 0
}

// skipNumber skips a LEB128 number of at most size bytes.
func (r *reader) skipNumber(size int) {
	for range size {
		if r.byte()&0x80 == 0 {
			return
		}
	}
	r.fail("a number is longer than %d bytes", size)
}

// types skips n value types. It refuses those of WebAssembly core 3.0 that take several bytes: newer
// compilers accept them, and would read the bytes after them differently.
func (r *reader) types(n uint32) {
	for _, t := range r.take(n) {
		if !isValueType(t) {
			r.fail("the type %#x is not supported", t)
		}
	}
}

// reference reads a reference type.
func (r *reader) reference() byte {
	t := r.byte()
	if r.err == nil && t != typeFuncRef && t != typeExternRef {
		r.fail("the type %#x is not supported", t)
	}
	return t
}

// blockType skips the type of a block: none, a value type, or an index, which is a signed number
// of 33 bits.
func (r *reader) blockType() {
	var value int64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		value |= int64(b&0x7f) << shift
		if b&0x80 != 0 {
			continue
		}
		if b&0x40 != 0 { // negative: the one byte of a type
			value |= -1 << (shift + 7)
			if t := byte(value & 0x7f); value < -64 || t != emptyBlock && !isValueType(t) {
				r.fail("a block of type %d is not supported", value)
			}
		}
		return
	}
	r.fail("a number is longer than 5 bytes")
}

func (r *reader) name() string { return string(r.take(r.u32())) }

// count reads the length of a vector. Each entry takes at least a byte, so a length beyond the
// remaining bytes is refused before memory is allocated for it.
func (r *reader) count() int {
	n := r.u32()
	if r.err == nil && uint64(n) > uint64(len(r.bytes)-r.at) {
		r.fail("a list of %d entries does not fit the %d bytes left", n, len(r.bytes)-r.at)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func appendU32(to []byte, value uint32) []byte {
	for value >= 0x80 {
		to = append(to, byte(value)|0x80)
		value >>= 7
	}
	return append(to, byte(value))
}

func appendName(to []byte, name string) []byte {
	return append(appendU32(to, uint32(len(name))), name...)
}
