package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// The names that connect a rewritten module with its host functions.
const (
	// FuelModule and FuelImport name the imported function without
	// parameters or results that is called when the counter is below zero.
	FuelModule = "toolroom_fuel"
	FuelImport = "tick"
	// FuelGlobal is the exported mutable i64 that holds the units left. It starts at zero,
	// so the first step of a module calls the host function.
	FuelGlobal = "toolroom_fuel_left"
)

// MeterVersion names the format of Meter's output, for caches.
const MeterVersion = "1"

// MaxModule is the largest module that is rewritten, in bytes.
const MaxModule = 256 << 20

var header = []byte("\x00asm\x01\x00\x00\x00")

// The identities of sections, in the binary format of WebAssembly core 2.0,
// 5.5.2.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
)

// sectionOrder is the order of sections in a module.
var sectionOrder = [...]int{
	sectionType, sectionImport, sectionFunction, sectionTable, sectionMemory, sectionGlobal,
	sectionExport, sectionStart, sectionElement, sectionDataCount, sectionCode, sectionData,
}

// Meter returns the module with metering built in. A module without metering can block
// its thread for ever: the Go scheduler does not preempt wazero's compiled code, so one
// guest loop stops every goroutine of the process at the next garbage collection, and
// wazero's own option for this (WithCloseOnContextDone) makes guest code several times
// slower.
//
// Meter adds a counter, which each function entry, each loop header and each bulk
// operation decreases, and a call of a host function when it is used up. The host
// function refills the counter or ends the run.
//
// Meter drops custom sections (names,
// debug data), because their function indices would no longer be right. It refuses,
// with an error and without a panic, modules that it cannot parse and every
// instruction beyond WebAssembly core 2.0 (threads, exceptions, tail calls, garbage
// collection, several memories). It does not validate: pass its output to a compiler
// that does.
func Meter(module []byte) ([]byte, error) {
	if len(module) > MaxModule {
		return nil, fmt.Errorf("metering a WebAssembly module: it has %d bytes, at most %d are taken", len(module), MaxModule)
	}
	sections, err := split(module)
	if err != nil {
		return nil, fmt.Errorf("metering a WebAssembly module: %w", err)
	}
	w := &rewriter{}
	for _, id := range sectionOrder {
		if err := w.section(id, sections[id]); err != nil {
			return nil, fmt.Errorf("metering a WebAssembly module: section %d: %w", id, err)
		}
	}
	return w.out, nil
}

// split finds the sections of a module and checks their order.
func split(module []byte) (sections [len(sectionOrder) + 1][]byte, err error) {
	if !bytes.HasPrefix(module, header) {
		return sections, errors.New("not a WebAssembly module of version 1")
	}
	r := &reader{bytes: module, at: len(header)}
	next := 0
	for r.more() {
		id, body := int(r.byte()), r.take(r.u32())
		if id == sectionCustom || r.err != nil {
			continue
		}
		rank := slices.Index(sectionOrder[:], id)
		if rank < next {
			return sections, fmt.Errorf("section %d is unknown, repeated or out of order", id)
		}
		next = rank + 1
		sections[id] = body
		if body == nil {
			sections[id] = []byte{}
		}
	}
	return sections, r.err
}

// rewriter rewrites a module section by section. It holds what later sections need from earlier ones.
type rewriter struct {
	out []byte

	params          []uint32 // parameters of each type
	tickType        uint32
	importedFuncs   uint32
	importedGlobals uint32
	functions       []uint32 // the type of each function the module defines
	fuel            uint32   // index of the counter
}

// shift returns the new index of a function, after the import has been inserted before the functions
// that the module defines.
func (w *rewriter) shift(index uint32) uint32 {
	if index >= w.importedFuncs && index != ^uint32(0) {
		return index + 1
	}
	return index
}

func (w *rewriter) section(id int, body []byte) error {
	r := &reader{bytes: body}
	var out []byte
	switch id {
	case sectionType:
		out = w.types(r)
	case sectionImport:
		out = w.imports(r)
	case sectionFunction:
		w.functionTypes(r)
		out = body
	case sectionTable:
		out = tables(r)
	case sectionMemory:
		skipMemories(r)
		out = body
	case sectionGlobal:
		out = w.globals(r)
	case sectionExport:
		out = w.exports(r)
	case sectionStart:
		if body == nil {
			return nil
		}
		out = appendU32(nil, w.shift(r.u32()))
	case sectionElement:
		out = w.elements(r)
	case sectionCode:
		out = w.code(r)
	case sectionData:
		out = w.data(r)
	default:
		r.at = len(body)
		out = body
	}
	if r.err != nil {
		return r.err
	}
	if r.more() {
		return fmt.Errorf("%d bytes too many", len(body)-r.at)
	}
	if out == nil {
		return nil
	}
	if w.out == nil {
		w.out = append(w.out, header...)
	}
	w.out = append(w.out, byte(id))
	w.out = append(appendU32(w.out, uint32(len(out))), out...)
	return nil
}

func (w *rewriter) types(r *reader) []byte {
	n := 0
	if r.more() {
		n = r.count()
	}
	start := r.at
	for range n {
		if form := r.byte(); form != 0x60 {
			r.fail("type form %#x is not supported", form)
		}
		params := r.u32()
		r.types(params)
		r.types(r.u32())
		if r.err != nil {
			return nil
		}
		w.params = append(w.params, params)
	}
	w.tickType = uint32(n)
	out := appendU32(nil, uint32(n)+1)
	out = append(out, r.bytes[start:r.at]...)
	return append(out, 0x60, 0, 0)
}

func (w *rewriter) imports(r *reader) []byte {
	n := 0
	if r.more() {
		n = r.count()
	}
	start := r.at
	for range n {
		if r.name() == FuelModule {
			r.fail("the module imports from %q, which is the meter's", FuelModule)
		}
		r.name()
		switch kind := r.byte(); kind {
		case 0:
			r.u32()
			w.importedFuncs++
		case 1:
			r.reference()
			skipLimits(r)
		case 2:
			skipLimits(r)
		case 3:
			r.types(1)
			r.byte()
			w.importedGlobals++
		default:
			r.fail("import of kind %d is not supported", kind)
		}
		if r.err != nil {
			return nil
		}
	}
	out := appendU32(nil, uint32(n)+1)
	out = append(out, r.bytes[start:r.at]...)
	out = appendName(appendName(out, FuelModule), FuelImport)
	return appendU32(append(out, 0), w.tickType)
}

func skipLimits(r *reader) {
	switch flag := r.byte(); flag {
	case 0:
		r.u32()
	case 1:
		r.u32()
		r.u32()
	default:
		r.fail("limits of form %d (shared, 64 bits) are not supported", flag)
	}
}

// tables copies the section of tables with a limit on their sizes, because tables use memory of the
// process.
func tables(r *reader) []byte {
	if !r.more() {
		return r.bytes
	}
	n := r.count()
	if n > maxTables {
		r.fail("%d tables, at most %d are supported", n, maxTables)
	}
	out := appendU32(nil, uint32(n))
	for range n {
		out = append(out, r.reference())
		flag, least, most := r.byte(), r.u32(), uint32(maxTable)
		switch flag {
		case 0:
		case 1:
			most = min(most, r.u32())
		default:
			r.fail("limits of form %d (shared, 64 bits) are not supported", flag)
		}
		if least > maxTable {
			r.fail("a table of %d elements, at most %d are supported", least, maxTable)
		}
		if r.err != nil {
			return nil
		}
		out = appendU32(appendU32(append(out, 1), least), most)
	}
	return out
}

// The largest number of a module's tables, and of elements in each. Compilers make one table, with an
// element for each function that is called by its address.
const (
	maxTables = 8
	maxTable  = 1 << 20
)

func skipMemories(r *reader) {
	if !r.more() {
		return
	}
	n := r.count()
	if n > 1 {
		r.fail("several memories are not supported")
	}
	for range n {
		skipLimits(r)
	}
}

func (w *rewriter) functionTypes(r *reader) {
	if !r.more() {
		return
	}
	for range r.count() {
		t := r.u32()
		if uint64(t) >= uint64(len(w.params)) {
			r.fail("function of type %d, of %d types", t, len(w.params))
		}
		w.functions = append(w.functions, t)
	}
}

func (w *rewriter) globals(r *reader) []byte {
	n := 0
	if r.more() {
		n = r.count()
	}
	var entries []byte
	for range n {
		start := r.at
		r.types(1)
		r.byte()
		entries = append(entries, r.bytes[start:r.at]...)
		entries = w.constant(r, entries)
		if r.err != nil {
			return nil
		}
	}
	w.fuel = w.importedGlobals + uint32(n)
	out := append(appendU32(nil, uint32(n)+1), entries...)
	return append(out, 0x7e, 1, opI64Const, 0, opEnd)
}

func (w *rewriter) exports(r *reader) []byte {
	n := 0
	if r.more() {
		n = r.count()
	}
	var entries []byte
	for range n {
		name, kind, index := r.name(), r.byte(), r.u32()
		if name == FuelGlobal {
			r.fail("the module exports %q, which is the meter's", FuelGlobal)
		}
		if r.err != nil {
			return nil
		}
		if kind == 0 {
			index = w.shift(index)
		}
		entries = appendU32(append(appendName(entries, name), kind), index)
	}
	out := append(appendU32(nil, uint32(n)+1), entries...)
	return appendU32(append(appendName(out, FuelGlobal), 3), w.fuel)
}

// elements reads the eight forms of a segment (core 2.0, 5.5.12).
func (w *rewriter) elements(r *reader) []byte {
	if r.bytes == nil {
		return nil
	}
	n := r.count()
	out := appendU32(nil, uint32(n))
	for range n {
		form := r.u32()
		if form > 7 {
			r.fail("element segment of form %d is not supported", form)
		}
		if r.err != nil {
			return nil
		}
		out = appendU32(out, form)
		passive, explicit, expressions := form&1 != 0, form&2 != 0, form&4 != 0
		if !passive {
			if explicit {
				out = appendU32(out, r.u32())
			}
			out = w.constant(r, out)
		}
		if (passive || explicit) && expressions {
			out = append(out, r.reference())
		} else if passive || explicit {
			out = append(out, r.byte()) // the kind: functions
		}
		members := r.count()
		out = appendU32(out, uint32(members))
		for range members {
			if expressions {
				out = w.constant(r, out)
			} else {
				out = appendU32(out, w.shift(r.u32()))
			}
			if r.err != nil {
				return nil
			}
		}
	}
	return out
}

func (w *rewriter) data(r *reader) []byte {
	if r.bytes == nil {
		return nil
	}
	n := r.count()
	out := appendU32(nil, uint32(n))
	for range n {
		form := r.u32()
		out = appendU32(out, form)
		switch form {
		case 0:
			out = w.constant(r, out)
		case 1:
		case 2:
			out = w.constant(r, appendU32(out, r.u32()))
		default:
			r.fail("data segment of form %d is not supported", form)
		}
		content := r.take(r.u32())
		if r.err != nil {
			return nil
		}
		out = append(appendU32(out, uint32(len(content))), content...)
	}
	return out
}
