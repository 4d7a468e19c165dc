package lookout

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// pause lets others have the processor: those of this process, and then those of
// other ones.
func pause() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // always succeeds, says its page
}

// Polled is a file that the runtime waits for, such as one that [os.Pipe] gave.
// Its reader waits without holding a thread.
func Polled(file *os.File) (Source, error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &polled{file, conn}, nil
}

type polled struct {
	*os.File
	conn syscall.RawConn
}

// Try reads what is there.
func (p *polled) Try(b []byte) (n int, err error) {
	cerr := p.conn.Read(func(fd uintptr) bool {
		n, err = try(int(fd), b)
		return true
	})
	return n, errors.Join(cerr, err)
}

// Held is a file whose reader waits on its thread, so that what has come wakes
// that and nothing else. The file must not be read in another way any more.
func Held(file *os.File) (Source, error) {
	fd := int(file.Fd())
	return &held{file, fd}, unix.SetNonblock(fd, true)
}

type held struct {
	file *os.File // must stay open
	fd   int
}

// Try reads what is there.
func (h *held) Try(b []byte) (int, error) { return try(h.fd, b) }

// Read waits.
func (h *held) Read(b []byte) (int, error) {
	for {
		n, err := try(h.fd, b)
		if n > 0 || err != nil {
			return n, err
		}
		_, err = unix.Ppoll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, nil, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("ppoll", err)
		}
	}
}

func try(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}
