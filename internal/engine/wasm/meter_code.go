package wasm

// The opcodes that the rewriter writes or treats apart (core 2.0, 5.4).
const (
	opBlock     = 0x02
	opLoop      = 0x03
	opIf        = 0x04
	opEnd       = 0x0b
	opCall      = 0x10
	opLocalGet  = 0x20
	opLocalTee  = 0x22
	opGlobalGet = 0x23
	opGlobalSet = 0x24
	opI32Const  = 0x41
	opI64Const  = 0x42
	opI64LtS    = 0x53
	opI64Sub    = 0x7d
	opI64ShrU   = 0x88
	opI64ExtU   = 0xad
	opRefFunc   = 0xd2
	opMisc      = 0xfc
	opVector    = 0xfd

	emptyBlock = 0x40

	typeI32       = 0x7f
	typeV128      = 0x7b
	typeFuncRef   = 0x70
	typeExternRef = 0x6f
)

// isValueType reports whether t is a type of WebAssembly core 2.0.
func isValueType(t byte) bool {
	return t >= typeV128 && t <= typeI32 || t == typeFuncRef || t == typeExternRef
}

// maxLocals bounds the locals of one function, as wazero does.
const maxLocals = 50_000

// maxNesting bounds the nesting of blocks in one function. Compile time grows with its square, and is
// minutes at 200,000. Compilers make some hundreds of levels, and Go some thousands, because it has
// one for each place where a function may resume.
const maxNesting = 20_000

func (w *rewriter) code(r *reader) []byte {
	if r.bytes == nil {
		return nil
	}
	n := r.count()
	if n != len(w.functions) {
		r.fail("%d bodies for %d functions", n, len(w.functions))
		return nil
	}
	out := appendU32(nil, uint32(n))
	var body []byte
	for i := range n {
		source := &reader{bytes: r.take(r.u32())}
		if r.err != nil {
			return nil
		}
		body = w.function(source, w.params[w.functions[i]], body[:0])
		if source.err != nil {
			r.fail("function %d: %v", i, source.err)
			return nil
		}
		out = append(appendU32(out, uint32(len(body))), body...)
	}
	return out
}

// function rewrites one body. A scratch local holds the length of bulk
// operations; it is declared only where there is one.
func (w *rewriter) function(r *reader, params uint32, out []byte) []byte {
	groups := r.count()
	declared := r.at
	locals := uint64(params)
	for range groups {
		locals += uint64(r.u32())
		r.types(1)
		if locals > maxLocals {
			r.fail("more than %d locals", maxLocals)
		}
		if r.err != nil {
			return nil
		}
	}
	declarations := r.bytes[declared:r.at]

	f := &body{rewriter: w, scratch: uint32(locals)}
	f.out = f.charge(f.out)
	f.expression(r)
	if r.more() {
		r.fail("%d bytes follow its end", len(r.bytes)-r.at)
	}
	if f.bulk {
		out = append(appendU32(out, uint32(groups)+1), declarations...)
		out = append(out, 1, typeI32)
	} else {
		out = append(appendU32(out, uint32(groups)), declarations...)
	}
	return append(out, f.out...)
}

// constant copies a constant expression.
func (w *rewriter) constant(r *reader, to []byte) []byte {
	f := &body{rewriter: w, out: to, constant: true}
	f.expression(r)
	return f.out
}

// body rewrites one expression: the body of a function, or a constant expression.
type body struct {
	*rewriter
	out      []byte
	scratch  uint32
	bulk     bool // the scratch local is used
	constant bool // a constant expression: nothing is added
}

// charge appends code that decreases the counter by one and calls the host function when it is used
// up.
func (f *body) charge(out []byte) []byte {
	out = appendU32(append(out, opGlobalGet), f.fuel)
	out = append(out, opI64Const, 1, opI64Sub)
	out = appendU32(append(out, opGlobalSet), f.fuel)
	return f.callTick(out)
}

// chargeLength appends code that decreases the counter by the length on top of the stack, shifted
// right.
func (f *body) chargeLength(out []byte, shift byte) []byte {
	f.bulk = true
	out = appendU32(append(out, opLocalTee), f.scratch)
	out = appendU32(append(out, opGlobalGet), f.fuel)
	out = appendU32(append(out, opLocalGet), f.scratch)
	out = append(out, opI64ExtU, opI64Const, shift, opI64ShrU, opI64Sub)
	out = appendU32(append(out, opGlobalSet), f.fuel)
	return f.callTick(out)
}

func (f *body) callTick(out []byte) []byte {
	out = appendU32(append(out, opGlobalGet), f.fuel)
	out = append(out, opI64Const, 0, opI64LtS, opIf, emptyBlock, opCall)
	return append(appendU32(out, f.importedFuncs), opEnd)
}

// expression copies the instructions of an expression, up to and with its end.
func (f *body) expression(r *reader) {
	for depth := 1; depth > 0 && r.err == nil; {
		start := r.at
		op := r.byte()
		switch op {
		case opBlock, opIf, opLoop:
			if depth++; depth > maxNesting {
				r.fail("blocks nest deeper than %d", maxNesting)
			}
		case opEnd:
			depth--
		case opCall, opRefFunc:
			index := f.shift(r.u32())
			f.out = appendU32(append(f.out, op), index)
			continue
		case opMisc:
			f.misc(r, start)
			continue
		case opGlobalGet, opGlobalSet:
			// What was no global of the module must not become one that it can set.
			if index := r.u32(); index == f.fuel && !f.constant {
				r.fail("there is no global %d", index)
			}
			f.out = append(f.out, r.bytes[start:r.at]...)
			continue
		}
		skipImmediate(r, op)
		f.out = append(f.out, r.bytes[start:r.at]...)
		if op == opLoop && !f.constant {
			f.out = f.charge(f.out)
		}
	}
}

// misc copies an instruction with the prefix 0xfc. If its work grows with an operand, it is
// charged for that.
func (f *body) misc(r *reader, start int) {
	shift := byte(0)
	switch op := r.u32(); {
	case op <= 7: // saturating conversions
	case op == 8: // memory.init
		r.u32()
		r.byte()
		shift = 6
	case op == 9, op == 13: // data.drop, elem.drop
		r.u32()
	case op == 10: // memory.copy
		r.take(2)
		shift = 6
	case op == 11: // memory.fill
		r.byte()
		shift = 6
	case op == 12, op == 14: // table.init, table.copy
		r.u32()
		r.u32()
		shift = 3
	case op == 15, op == 16: // table.grow, table.size
		r.u32()
	case op == 17: // table.fill
		r.u32()
		shift = 3
	default:
		r.fail("instruction 0xfc %d is not supported", op)
	}
	if r.err != nil {
		return
	}
	if shift > 0 && !f.constant {
		f.out = f.chargeLength(f.out, shift)
	}
	f.out = append(f.out, r.bytes[start:r.at]...)
}

// skipImmediate skips the immediate arguments of an opcode.
func skipImmediate(r *reader, op byte) {
	switch {
	case op == opBlock, op == opLoop, op == opIf:
		r.blockType()
	case op <= 0x01, op == 0x05, op == opEnd, op == 0x0f: // unreachable, nop, else, end, return
	case op == 0x0c, op == 0x0d: // br, br_if
		r.u32()
	case op == 0x0e: // br_table
		for range r.count() {
			r.u32()
		}
		r.u32()
	case op == 0x11: // call_indirect
		r.u32()
		r.u32()
	case op == 0x1a, op == 0x1b: // drop, select
	case op == 0x1c: // select with types
		r.types(r.u32())
	case op >= opLocalGet && op <= 0x26: // locals, globals, table.get, table.set
		r.u32()
	case op >= 0x28 && op <= 0x3e: // loads and stores
		skipMemory(r)
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		if r.byte() != 0 {
			r.fail("several memories are not supported")
		}
	case op == opI32Const:
		r.skipNumber(5)
	case op == opI64Const:
		r.skipNumber(10)
	case op == 0x43: // f32.const
		r.take(4)
	case op == 0x44: // f64.const
		r.take(8)
	case op >= 0x45 && op <= 0xc4: // numeric instructions without immediates
	case op == 0xd0: // ref.null
		r.reference()
	case op == 0xd1: // ref.is_null
	case op == opVector:
		skipVector(r)
	default:
		r.fail("instruction %#x is not supported", op)
	}
}

func skipMemory(r *reader) {
	if align := r.u32(); align > 31 {
		r.fail("alignment %d (several memories) is not supported", align)
	}
	r.u32()
}

// skipVector skips an instruction for 128-bit vectors (core 2.0, 5.4.8).
func skipVector(r *reader) {
	start := r.at
	op := r.u32()
	if length := r.at - start; r.err == nil && (op < 0x80 && length > 1 || length > 2) {
		// Compilers may look at its first byte only.
		r.fail("instruction 0xfd %d is not written in its shortest form", op)
	}
	switch {
	case op <= 11, op == 92, op == 93: // loads and stores
		skipMemory(r)
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		r.take(16)
	case op >= 21 && op <= 34: // lanes
		r.byte()
	case op >= 84 && op <= 91: // loads and stores of a lane
		skipMemory(r)
		r.byte()
	case op <= 255:
	default:
		r.fail("instruction 0xfd %d is not supported", op)
	}
}
