package wasm

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pagemap reads which pages a process has written. It is opened before a process
// locks itself, and may be shared by all memories.
type Pagemap struct{ file *os.File }

// OpenPagemap opens the page map of this process.
func OpenPagemap() (*Pagemap, error) {
	file, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, fmt.Errorf("open the page map: %w", err)
	}
	return &Pagemap{file}, nil
}

// Close closes the page map; memories that use it can no longer be reset.
func (p *Pagemap) Close() error { return p.file.Close() }

// Memory is one linear memory. It implements wazero's LinearMemory. It must
// not be used by two goroutines at once.
type Memory struct {
	// Limit bounds the memory of the current run, in bytes.
	Limit uint64
	// Refused reports whether the guest has asked for more.
	Refused bool

	region  []byte // the whole reservation
	size    int    // bytes in use
	image   *Image
	pagemap *Pagemap
	entries []byte // buffer for the page map of the image's head
}

// NewMemory reserves address space for at most limit bytes, which is the memory's Limit.
// With a nil pagemap every reset drops all written pages.
func NewMemory(limit uint64, pagemap *Pagemap) (*Memory, error) {
	region, err := unix.Mmap(-1, 0, int(limit), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes for a linear memory: %w", limit, err)
	}
	return &Memory{Limit: limit, region: region, pagemap: pagemap}, nil
}

// Reallocate grows the memory to size bytes, in place; or returns nil if the limit is
// reached, which the guest sees as exhausted memory.
func (m *Memory) Reallocate(size uint64) []byte {
	if size > min(m.Limit, uint64(len(m.region))) {
		m.Refused = true
		return nil
	}
	if n := int(size); n > m.size {
		if unix.Mprotect(m.region[m.size:n], unix.PROT_READ|unix.PROT_WRITE) != nil {
			return nil
		}
		m.size = n
	}
	return m.region[:m.size:len(m.region)]
}

// Free returns the memory to the system.
func (m *Memory) Free() {
	if m.region != nil {
		_ = unix.Munmap(m.region) // unmapping our own mapping cannot fail
		m.region, m.size = nil, 0
	}
}

// Image is the content of a memory at one moment. It may be shared.
type Image struct {
	file *os.File
	data []byte // the file, mapped read-only
	head int    // end of the part that usual runs write to
}

// usualWrites is how many bytes of the free memory in an image a run usually writes to.
const usualWrites = 256 << 10

// findHead finds the head of the image: what is before the largest hole, which is
// the image's free memory, and the beginning of the hole.
func (i *Image) findHead() {
	i.head = len(i.data)
	largest := int64(usualWrites)
	for at := int64(0); ; {
		from, err := i.file.Seek(at, unix.SEEK_HOLE)
		if err != nil || from >= int64(len(i.data)) {
			break
		}
		if at, err = i.file.Seek(from, unix.SEEK_DATA); err != nil { // there is none after it
			at = int64(len(i.data))
		}
		if at-from > largest {
			largest, i.head = at-from, int(from+usualWrites)
		}
	}
}

// Freeze takes an image of the memory's content.
func (m *Memory) Freeze() (*Image, error) {
	fd, err := unix.MemfdCreate("toolroom-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("create a memory file: %w", err)
	}
	image := &Image{file: os.NewFile(uintptr(fd), "toolroom-image")}
	if err := image.fill(m.region[:m.size]); err != nil {
		_ = image.Close() // the first error counts
		return nil, fmt.Errorf("take an image of a linear memory: %w", err)
	}
	return image, nil
}

func (i *Image) fill(content []byte) error {
	if err := i.file.Truncate(int64(len(content))); err != nil {
		return err
	}
	if err := writeHoles(i.file, content); err != nil {
		return err
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(i.file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return err
	}
	var err error
	i.data, err = unix.Mmap(int(i.file.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	i.findHead()
	return err
}

// Bytes returns the image itself, which must not be modified.
func (i *Image) Bytes() []byte { return i.data }

// Close frees the image. Memories that adopted it stay usable, but cannot be reset.
func (i *Image) Close() error {
	if i.data != nil {
		_ = unix.Munmap(i.data) // unmapping our own mapping cannot fail
		i.data = nil
	}
	return i.file.Close()
}

// Adopt makes the memory a private copy of the image, which must not be larger than
// the memory.
func (m *Memory) Adopt(image *Image) error {
	if len(image.data) != m.size {
		return fmt.Errorf("a memory of %d bytes cannot adopt an image of %d", m.size, len(image.data))
	}
	if err := mapOver(m.region[:m.size], int(image.file.Fd())); err != nil {
		return fmt.Errorf("map an image: %w", err)
	}
	m.image = image
	m.entries = make([]byte, image.head/os.Getpagesize()*8)
	return nil
}

// mapOver maps a file privately over a part of the reservation. The unix package
// maps only at addresses that the kernel chooses.
func mapOver(region []byte, fd int) error {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(region)))
	_, _, errno := syscall.Syscall6(syscall.SYS_MMAP, address, uintptr(len(region)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_NORESERVE|unix.MAP_FIXED, uintptr(fd), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// The bits of a page map entry (Linux, Documentation/admin-guide/mm/pagemap.rst).
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageOfFile  = 1 << 61
)

// Reset resets the memory to the image that it adopted. It returns how many pages
// were copied, -1 if all were dropped instead. After an error the memory must not be
// used.
//
// Reset copies written pages of the image's head, because the next run writes to
// them again and would have to wait for each. It drops pages behind the head, which
// is faster than checking them.
func (m *Memory) Reset() (int, error) {
	if m.size != len(m.image.data) {
		return 0, ErrGrown
	}
	if m.pagemap == nil {
		return -1, m.drop(0)
	}
	page := os.Getpagesize()
	first := int64(uintptr(unsafe.Pointer(unsafe.SliceData(m.region)))) / int64(page)
	if _, err := m.pagemap.file.ReadAt(m.entries, first*8); err != nil {
		return 0, fmt.Errorf("read the page map: %w", err)
	}
	copied := 0
	for i := 0; i < len(m.entries); i += 8 {
		entry := binary.NativeEndian.Uint64(m.entries[i:])
		if entry&(pagePresent|pageSwapped) == 0 || entry&pageOfFile != 0 {
			continue // never touched, or still the image's own page
		}
		at := i / 8 * page
		copy(m.region[at:at+page], m.image.data[at:at+page])
		copied++
	}
	return copied, m.drop(m.image.head)
}

// drop drops the pages written from an offset on.
func (m *Memory) drop(from int) error {
	if from == m.size {
		return nil
	}
	if err := unix.Madvise(m.region[from:m.size], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("drop written pages: %w", err)
	}
	return nil
}
